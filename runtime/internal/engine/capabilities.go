package engine

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Capability returns what a backend can do besides the calls that every backend answers: C is one of the interfaces
// below. For a backend without it, the error is ErrNotInContract. Nothing else finds out what a backend lacks.
func Capability[C any](b Backend) (C, error) {
	c, ok := b.(C)
	if !ok {
		return c, ErrNotInContract
	}
	return c, nil
}

// Has reports whether a backend has a capability.
func Has[C any](b Backend) bool {
	_, ok := b.(C)
	return ok
}

// RunControl changes runs beyond cancelling them as a whole.
type RunControl interface {
	CancelNode(context.Context, enginerpc.CancelNodeCall) (enginerpc.CancelNodeReply, error)
	SetPriority(context.Context, enginerpc.SetPriorityCall) (enginerpc.SetPriorityReply, error)
	Rerun(context.Context, enginerpc.RerunCall) (enginerpc.RerunReply, error)
	PurgeFlow(context.Context, enginerpc.PurgeFlowCall) (enginerpc.PurgeFlowReply, error)
}

// RunIndex finds runs by flow, tag and state in lists that are kept for that; ListRuns searches them.
type RunIndex interface {
	pipeliner
	ReadResults(context.Context, enginerpc.ReadResultsCall) (enginerpc.ReadResultsReply, error)
}

// WaitStore keeps steps, waits and waitpoints of executions.
type WaitStore interface {
	Suspend(context.Context, enginerpc.SuspendCall) (enginerpc.SuspendReply, error)
	RecordStep(context.Context, enginerpc.RecordStepCall) (enginerpc.RecordStepReply, error)
	ListWaitpoints(context.Context, enginerpc.ListWaitpointsCall) (enginerpc.ListWaitpointsReply, error)
}

// PauseStore lists what is paused in a partition.
type PauseStore interface {
	Pauses(context.Context, enginerpc.PausesCall) (enginerpc.PausesReply, error)
}

// BudgetStore keeps budgets with limits and counts their use.
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

// LimitStore admits executions that wait for slots of limits, and finds the next one to grant.
type LimitStore interface {
	Exchange(context.Context, enginerpc.ExchangeCall) (enginerpc.ExchangeReply, error)
	GrantNext(context.Context, enginerpc.GrantNextCall) (enginerpc.GrantNextReply, error)
}

// GrantedClaims claims by a grant.
type GrantedClaims interface {
	ClaimGranted(context.Context, enginerpc.ClaimGrantedCall) (enginerpc.ClaimGrantedReply, error)
}

// BatchedStarts submits several runs of a flow with one call.
type BatchedStarts interface {
	SubmitMany(context.Context, enginerpc.SubmitManyCall) (enginerpc.SubmitManyReply, error)
}

// BatchedCompletions commits several results with one call.
type BatchedCompletions interface {
	CompleteMany(context.Context, enginerpc.CompleteManyCall) (enginerpc.CompleteManyReply, error)
}

// partitionChoice marks a backend whose Claim takes several partitions and picks one of those on its server.
type partitionChoice interface{ choosesPartitions() }

// CompositeLibrary is the function library of this project, which can be replaced by another build.
type CompositeLibrary interface {
	Version(context.Context, enginerpc.VersionCall) (enginerpc.VersionReply, error)
}

// Maintenance repairs records and indexes and removes what was kept long enough. Its calls are sent together, for
// several partitions.
type Maintenance interface {
	pipeliner
	DropAdmissions(context.Context, enginerpc.DropAdmissionsCall) (enginerpc.DropAdmissionsReply, error)
	VerifyBudgetUse(context.Context, enginerpc.VerifyBudgetUseCall) (enginerpc.VerifyBudgetUseReply, error)
	BudgetDone(context.Context, enginerpc.BudgetDoneCall) (enginerpc.BudgetDoneReply, error)
}

// OverdueIndexes works off indexes of a backend whose tick does not.
type OverdueIndexes interface {
	Overdue() []OverdueIndex
}

// OverdueIndex is an index, ordered by time, of entries that a task has to work off.
type OverdueIndex struct {
	Task   TaskID
	Family enginecore.Family
	// Every is how often a partition is looked at.
	Every time.Duration
	// Key is the key of the index in a partition.
	Key func(enginecore.Partition) string
	// Work works off entries that are due and returns how many were worked off.
	Work func(ctx context.Context, p enginecore.Partition, due []string, now time.Time) (int64, error)
}

// LaneDirectory knows lanes that executions use.
type LaneDirectory interface {
	// KnownLanes returns the lanes that were seen so far, with more of them, in order.
	KnownLanes(more []enginecore.LaneID) []enginecore.LaneID
}

// CompletionFollower finishes what follows from the end of an execution where the process that ended it does not.
type CompletionFollower interface {
	// FollowCompletions works until ctx ends.
	FollowCompletions(ctx context.Context)
}

// IsOneServer reports whether a claim can leave it to the server which partition it visits: one server has all of them.
func (s *Session) IsOneServer() bool {
	return Has[partitionChoice](s.Backend) && s.Client.Mode() != rueidis.ClientModeCluster
}
