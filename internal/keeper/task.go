package keeper

import (
	"errors"
	"time"
)

// Task describes one kind of a keeper's work. The public admin.KeeperTask documents the fields.
type Task struct {
	Name, Summary, ContractName string
	Every                       time.Duration
}

// TaskReport is the result of one task run on request. The public admin.KeeperTaskReport documents the fields.
type TaskReport struct {
	Task              string
	Partitions, Steps int
	Done              int64
	Lag               time.Duration
	Remaining         int
	Repaired          map[string]int64
	Took              time.Duration
}

// ErrUnknownTask is returned for a task that does not exist, or that the engine does not have because it is in contract
// mode.
var ErrUnknownTask = errors.New("no such keeper task")

// Handle carries a keeper from a runtime.Keeper to packages of this module; programs can do nothing with it.
type Handle struct{ keeper *Keeper }

// HandleOf returns the handle of a keeper.
func HandleOf(k *Keeper) Handle { return Handle{k} }

// Of returns the keeper of a handle.
func Of(h Handle) *Keeper { return h.keeper }
