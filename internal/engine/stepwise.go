package engine

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Stepwise is a backend that performs an operation in several steps where the whole library performs it in one call,
// and that shares the server with other programs. It needs clients, workers and keepers to do more.
type Stepwise interface {
	Backend

	// SubmitFlow creates a flow, or a part of it, node by node and edge by edge. It reports whether the flow existed.
	SubmitFlow(context.Context, FlowSubmission) (existed bool, err error)

	// CheckWait returns ErrNotInContract, with the construct by name, for a wait with a condition that the server's
	// library cannot evaluate. The condition is the JSON form of a call of Suspend.
	CheckWait(ctx context.Context, condition []byte) error
	// CheckText returns ErrNotInContract, with the construct by name, for a wait with a text that the engine cannot
	// store.
	CheckText(text activityspec.WaitText) error
	// WaitResult returns the journal entry of the wait of a step; nil if the wait has not ended.
	WaitResult(
		ctx context.Context, id enginecore.ExecutionID, attempt enginecore.AttemptIndex, step string, collect bool,
	) ([]byte, error)

	// EnterWorker records the capabilities of a worker, sorted and separated by commas, and its lanes, for the other
	// programs of the contract. It may be repeated.
	EnterWorker(
		ctx context.Context, instance enginecore.WorkerInstanceID, capabilities string, lanes []enginecore.LaneID,
	) error
	// LeaveWorker removes a worker that has stopped.
	LeaveWorker(ctx context.Context, instance enginecore.WorkerInstanceID) error
	// EnterLanes enters lanes into the list of lanes in use, which all programs of one engine share. It may be
	// repeated.
	EnterLanes(ctx context.Context, lanes ...enginecore.LaneID) error
	// KnownLanes enters the given lanes and returns the whole list, sorted, from a recent read.
	KnownLanes(ctx context.Context, more []enginecore.LaneID) []enginecore.LaneID

	// TickKeys returns keys of a partition of which at least one exists if a tick has work there. No messages announce
	// all work, so each partition is visited at Backend.PollEvery.
	TickKeys(p keyspace.Partition, lanes []enginecore.LaneID) []string
	// Overdue lists the time indexes that a keeper processes itself, because the tick does not.
	Overdue() []OverdueIndex
	// FollowCompletions finishes the consequences of the end of an execution if the process that ended it does not. It
	// works until ctx ends.
	FollowCompletions(ctx context.Context)
}

// OverdueIndex is an index, ordered by time, of entries that a keeper task has to process.
type OverdueIndex struct {
	Task   TaskID
	Family keyspace.Family
	// Every is the interval at which one partition is read.
	Every time.Duration
	// Key returns the key of the index in a partition.
	Key func(keyspace.Partition) string
	// Work processes entries that are due at now and returns how many it has processed.
	Work func(ctx context.Context, p keyspace.Partition, due []string, now time.Time) (int64, error)
}

// Stepwise returns the backend if it is stepwise, as in contract mode.
func (s *Session) Stepwise() (b Stepwise, is bool) {
	b, is = s.Backend.(Stepwise)
	return b, is
}

// Guest makes the backend of sessions whose engine keeps the function library of another project.
type Guest interface {
	// Check returns an error that joins all faults of the guest's configuration.
	Check() error
	// Open returns the backend of a session that is connected.
	Open(ctx context.Context, s *Session) (Backend, error)
}

// ContractBackend carries the backend of package contract to runtime.OpenConfig; programs can do nothing else with it.
// The zero value has none.
type ContractBackend struct{ guest Guest }

// ContractBackendOf returns the value that carries a guest.
func ContractBackendOf(g Guest) ContractBackend { return ContractBackend{g} }

// GuestOf returns the guest that a value carries, nil for the zero value.
func GuestOf(b ContractBackend) Guest { return b.guest }
