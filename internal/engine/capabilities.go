package engine

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Capability returns a backend as C, one of the interfaces below, which contain the calls that only some backends
// support. For a backend without the capability, the error is [ErrNotInContract]. This is the only way to find out
// whether a backend has a capability.
func Capability[C any](b Backend) (C, error) {
	c, ok := b.(C)
	if !ok {
		return c, ErrNotInContract
	}
	return c, nil
}

// Has reports whether a backend has the capability C.
func Has[C any](b Backend) bool {
	_, ok := b.(C)
	return ok
}

// RunControl changes runs in other ways than cancelling them as a whole.
type RunControl interface {
	CancelNode(context.Context, enginerpc.CancelNodeCall) (enginerpc.CancelNodeReply, error)
	MoveStart(context.Context, enginerpc.MoveStartCall) (enginerpc.MoveStartReply, error)
	SetPriority(context.Context, enginerpc.SetPriorityCall) (enginerpc.SetPriorityReply, error)
	Rerun(context.Context, enginerpc.RerunCall) (enginerpc.RerunReply, error)
	PurgeFlow(context.Context, enginerpc.PurgeFlowCall) (enginerpc.PurgeFlowReply, error)
}

// RunIndex finds runs by flow, tag and state in indexes, which ListRuns searches.
type RunIndex interface {
	batching.Pipeliner
	ReadResults(context.Context, enginerpc.ReadResultsCall) (enginerpc.ReadResultsReply, error)
}

// ValueStore reads values of runs and their nodes with a bound.
type ValueStore interface {
	ReadValues(context.Context, enginerpc.ReadValuesCall) (enginerpc.ReadValuesReply, error)
}

// WaitStore keeps the waits and waitpoints of executions.
type WaitStore interface {
	Suspend(context.Context, enginerpc.SuspendCall) (enginerpc.SuspendReply, error)
	OpenWaitpoint(context.Context, enginerpc.OpenWaitpointCall) (enginerpc.OpenWaitpointReply, error)
	Signal(context.Context, enginerpc.SignalCall) (enginerpc.SignalReply, error)
	ListWaitpoints(context.Context, enginerpc.ListWaitpointsCall) (enginerpc.ListWaitpointsReply, error)
	EndWait(context.Context, enginerpc.EndWaitCall) (enginerpc.EndWaitReply, error)
}

// NamedWaits signals waits by their names, also those that have not begun.
type NamedWaits interface {
	SignalNode(context.Context, enginerpc.SignalNodeCall) (enginerpc.SignalNodeReply, error)
}

// WaitIndex finds the waits of all runs.
type WaitIndex interface {
	batching.Pipeliner
	ListWaits(context.Context, enginerpc.ListWaitsCall) (enginerpc.ListWaitsReply, error)
	ReadWaitpoint(context.Context, enginerpc.ReadWaitpointCall) (enginerpc.ReadWaitpointReply, error)
}

// AuditLog records changes with their actors.
type AuditLog interface {
	Audit(context.Context, enginerpc.AuditCall) (enginerpc.AuditReply, error)
	ReadAudit(context.Context, enginerpc.ReadAuditCall) (enginerpc.ReadAuditReply, error)
}

// StepStore keeps a journal of each execution: the results of its steps and of its waits.
type StepStore interface {
	RecordStep(context.Context, enginerpc.RecordStepCall) (enginerpc.RecordStepReply, error)
	ReadJournal(context.Context, enginerpc.ReadJournalCall) (enginerpc.ReadJournalReply, error)
}

// WaitResults finds the results of waits where executions have no journal.
type WaitResults interface {
	// CheckWait returns ErrNotInContract, with the feature by name, for a wait with a condition that the engine does
	// not know. The condition is the JSON form of a call of Suspend.
	CheckWait(ctx context.Context, condition []byte) error
	// CheckText returns ErrNotInContract, with the feature by name, for a wait with a text that the engine does not
	// keep.
	CheckText(text activityspec.WaitText) error
	// WaitResult returns the journal entry of the wait of a step; nil if the wait has not ended.
	WaitResult(
		ctx context.Context, id enginecore.ExecutionID, attempt enginecore.AttemptIndex, step string, collect bool,
	) ([]byte, error)
}

// PauseStore lists the pauses of a partition.
type PauseStore interface {
	Pauses(context.Context, enginerpc.PausesCall) (enginerpc.PausesReply, error)
}

// BudgetStore keeps budgets with their limits and counts their use.
type BudgetStore interface {
	SetBudget(context.Context, enginerpc.SetBudgetCall) (enginerpc.SetBudgetReply, error)
	GetBudgets(context.Context, enginerpc.GetBudgetsCall) (enginerpc.GetBudgetsReply, error)
	ListBudgets(context.Context, enginerpc.ListBudgetsCall) (enginerpc.ListBudgetsReply, error)
	ResetBudget(context.Context, enginerpc.ResetBudgetCall) (enginerpc.ResetBudgetReply, error)
	RemoveBudget(context.Context, enginerpc.RemoveBudgetCall) (enginerpc.RemoveBudgetReply, error)
}

// ScheduleCalls keeps schedules.
type ScheduleCalls interface {
	ReadSchedule(context.Context, enginerpc.ReadScheduleCall) (enginerpc.ReadScheduleReply, error)
	ListSchedules(context.Context, enginerpc.ListSchedulesCall) (enginerpc.ListSchedulesReply, error)
	WriteSchedule(context.Context, enginerpc.WriteScheduleCall) (enginerpc.WriteScheduleReply, error)
	DeleteSchedule(context.Context, enginerpc.DeleteScheduleCall) (enginerpc.DeleteScheduleReply, error)
}

// BulkJobCalls keeps bulk jobs.
type BulkJobCalls interface {
	StartBulkJob(context.Context, enginerpc.StartBulkJobCall) (enginerpc.StartBulkJobReply, error)
	ReadBulkJob(context.Context, enginerpc.ReadBulkJobCall) (enginerpc.ReadBulkJobReply, error)
	ListBulkJobs(context.Context, enginerpc.ListBulkJobsCall) (enginerpc.ListBulkJobsReply, error)
	StopBulkJob(context.Context, enginerpc.StopBulkJobCall) (enginerpc.StopBulkJobReply, error)
}

// RunKeys starts runs by key, by rate, or together, and returns the state of the runs of a key.
type RunKeys interface {
	ReadRunKey(context.Context, enginerpc.ReadRunKeyCall) (enginerpc.ReadRunKeyReply, error)
}

// NodeEvents reads the events of one node without the events of other nodes.
type NodeEvents interface {
	ReadNodeEvents(context.Context, enginerpc.ReadNodeEventsCall) (enginerpc.ReadNodeEventsReply, error)
}

// LimitStore admits executions that wait for permits of limits, and finds the next execution to grant.
type LimitStore interface {
	Exchange(context.Context, enginerpc.ExchangeCall) (enginerpc.ExchangeReply, error)
	GrantNext(context.Context, enginerpc.GrantNextCall) (enginerpc.GrantNextReply, error)
}

// GrantedClaims claims executions by a grant.
type GrantedClaims interface {
	ClaimGranted(context.Context, enginerpc.ClaimGrantedCall) (enginerpc.ClaimGrantedReply, error)
}

// GraphStore stores graphs, each once in a partition, and submits runs of them.
type GraphStore interface {
	PutGraph(context.Context, enginerpc.PutGraphCall) (enginerpc.PutGraphReply, error)
	Submit(context.Context, enginerpc.SubmitCall) (enginerpc.SubmitReply, error)
	FindNode(context.Context, enginerpc.FindNodeCall) (enginerpc.FindNodeReply, error)
}

// StepwiseSubmission creates runs node by node and edge by edge, where graphs are not stored.
type StepwiseSubmission interface {
	// SubmitFlow creates a flow, or a part of it, and reports whether it existed.
	SubmitFlow(context.Context, FlowSubmission) (existed bool, err error)
}

// BatchedCompletions commits several results with one call.
type BatchedCompletions interface {
	CompleteMany(context.Context, enginerpc.CompleteManyCall) (enginerpc.CompleteManyReply, error)
}

// laneOrder marks a backend whose Claim takes executions of all partitions that one server has.
type laneOrder interface{ ordersLanes() }

// CompositeLibrary reports the version of this project's function library, which another build can replace.
type CompositeLibrary interface {
	Version(context.Context, enginerpc.VersionCall) (enginerpc.VersionReply, error)
}

// Maintenance repairs records and indexes and removes data whose retention has passed. Its calls are sent together for
// several partitions.
type Maintenance interface {
	batching.Pipeliner
	DropAdmissions(context.Context, enginerpc.DropAdmissionsCall) (enginerpc.DropAdmissionsReply, error)
	VerifyBudgetUse(context.Context, enginerpc.VerifyBudgetUseCall) (enginerpc.VerifyBudgetUseReply, error)
	BudgetDone(context.Context, enginerpc.BudgetDoneCall) (enginerpc.BudgetDoneReply, error)
}

// OverdueIndexes lists the time indexes that a keeper works off itself, because the tick of the backend does not.
type OverdueIndexes interface {
	Overdue() []OverdueIndex
}

// OverdueIndex is an index, ordered by time, of entries that a keeper task has to work off.
type OverdueIndex struct {
	Task   TaskID
	Family keyspace.Family
	// Every is the time between two passes over one partition.
	Every time.Duration
	// Key returns the key of the index in a partition.
	Key func(keyspace.Partition) string
	// Work works off entries that are due at now and returns how many it has worked off.
	Work func(ctx context.Context, p keyspace.Partition, due []string, now time.Time) (int64, error)
}

// LaneDirectory lists the lanes in use, which all programs of one engine share.
type LaneDirectory interface {
	// EnterLanes enters lanes into the list. It may be repeated.
	EnterLanes(ctx context.Context, lanes ...enginecore.LaneID) error
	// KnownLanes enters the given lanes and returns all of the list, sorted, as the engine had it a moment ago.
	KnownLanes(ctx context.Context, more []enginecore.LaneID) []enginecore.LaneID
}

// PolledTick is a tick that no messages announce all work for, so that each partition is visited at Backend.PollEvery.
type PolledTick interface {
	// TickKeys returns keys of a partition of which at least one exists if a tick has work there.
	TickKeys(p keyspace.Partition, lanes []enginecore.LaneID) []string
}

// WorkerDirectory lists the workers and their capabilities for the other programs of the contract.
type WorkerDirectory interface {
	// EnterWorker records the capabilities of a worker, sorted and separated by commas, and its lanes. It may be
	// repeated.
	EnterWorker(
		ctx context.Context, instance enginecore.WorkerInstanceID, capabilities string, lanes []enginecore.LaneID,
	) error
	// LeaveWorker removes a worker that has stopped.
	LeaveWorker(ctx context.Context, instance enginecore.WorkerInstanceID) error
}

// CompletionFollower applies the consequences of the end of an execution if the process that ended it does not.
type CompletionFollower interface {
	// FollowCompletions works until ctx ends.
	FollowCompletions(ctx context.Context)
}

// IsOneServer reports whether one server has all partitions, so that it keeps one order for each lane, in partition 0.
// It is false for a cluster and for a backend whose Claim takes one partition only.
func (s *Session) IsOneServer() bool {
	return Has[laneOrder](s.Backend) && s.Client.Mode() != rueidis.ClientModeCluster
}
