// Package keepertask holds what packages runtime and admin tell each other about the tasks of keepers: their
// description, and the report of one that was run on request.
package keepertask

import (
	"context"
	"errors"
	"time"
)

// Task describes one kind of a keeper's work. The public admin.KeeperTask documents the fields.
type Task struct {
	Name, Summary, ContractName string
	Every                       time.Duration
	InContractMode              bool
}

// Report is the result of one task run on request. The public admin.KeeperTaskReport documents the fields.
type Report struct {
	Task              string
	Partitions, Steps int
	Done              int64
	Lag               time.Duration
	Remaining         int
	Repaired          map[string]int64
	Took              time.Duration
}

// ErrUnknown is returned for a task that does not exist, or that the engine does not have because it is in contract
// mode.
var ErrUnknown = errors.New("no such keeper task")

// Package runtime sets these when it is initialized, so that its Keeper has no methods that only package admin calls.
var (
	// TasksOf describes the tasks of a *runtime.Keeper. A keeper that cannot run has none.
	TasksOf func(keeper any) []Task
	// RunTask runs one task of a *runtime.Keeper, with its configuration, in all partitions.
	RunTask func(ctx context.Context, keeper any, name string) (Report, error)
)
