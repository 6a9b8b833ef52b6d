package runtime

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// capability returns what a backend can do besides the calls that every backend answers: C is one of the interfaces below. For
// a backend without it, the error is ErrNotInContract. Nothing else finds out what a backend lacks.
func capability[C any](b backend) (C, error) {
	c, ok := b.(C)
	if !ok {
		return c, ErrNotInContract
	}
	return c, nil
}

// has reports whether a backend has a capability.
func has[C any](b backend) bool {
	_, ok := b.(C)
	return ok
}

// runControl changes runs beyond cancelling them as a whole.
type runControl interface {
	CancelNode(context.Context, enginecore.CancelNodeCall) (enginecore.CancelNodeReply, error)
	SetPriority(context.Context, enginecore.SetPriorityCall) (enginecore.SetPriorityReply, error)
	Rerun(context.Context, enginecore.RerunCall) (enginecore.RerunReply, error)
	PurgeFlow(context.Context, enginecore.PurgeFlowCall) (enginecore.PurgeFlowReply, error)
}

// runIndex finds runs by flow, tag and state in lists that are kept for that; ListRuns searches them.
type runIndex interface {
	pipeliner
	ReadResults(context.Context, enginecore.ReadResultsCall) (enginecore.ReadResultsReply, error)
}

// waitStore keeps steps, waits and waitpoints of executions.
type waitStore interface {
	Suspend(context.Context, enginecore.SuspendCall) (enginecore.SuspendReply, error)
	RecordStep(context.Context, enginecore.RecordStepCall) (enginecore.RecordStepReply, error)
	ListWaitpoints(context.Context, enginecore.ListWaitpointsCall) (enginecore.ListWaitpointsReply, error)
}

// pauseStore lists what is paused in a partition.
type pauseStore interface {
	Pauses(context.Context, enginecore.PausesCall) (enginecore.PausesReply, error)
}

// budgetStore keeps budgets with limits and counts their use.
type budgetStore interface {
	SetBudget(context.Context, enginecore.SetBudgetCall) (enginecore.SetBudgetReply, error)
	GetBudgets(context.Context, enginecore.GetBudgetsCall) (enginecore.GetBudgetsReply, error)
	ListBudgets(context.Context, enginecore.ListBudgetsCall) (enginecore.ListBudgetsReply, error)
	ResetBudget(context.Context, enginecore.ResetBudgetCall) (enginecore.ResetBudgetReply, error)
	RemoveBudget(context.Context, enginecore.RemoveBudgetCall) (enginecore.RemoveBudgetReply, error)
}

// scheduleCalls keeps schedules.
type scheduleCalls interface {
	ReadSchedule(context.Context, enginecore.ReadScheduleCall) (enginecore.ReadScheduleReply, error)
	ListSchedules(context.Context, enginecore.ListSchedulesCall) (enginecore.ListSchedulesReply, error)
	WriteSchedule(context.Context, enginecore.WriteScheduleCall) (enginecore.WriteScheduleReply, error)
	DeleteSchedule(context.Context, enginecore.DeleteScheduleCall) (enginecore.DeleteScheduleReply, error)
}

// limitStore admits executions that wait for slots of limits, and finds the next one to grant.
type limitStore interface {
	Exchange(context.Context, enginecore.ExchangeCall) (enginecore.ExchangeReply, error)
	GrantNext(context.Context, enginecore.GrantNextCall) (enginecore.GrantNextReply, error)
}

// grantedClaims claims by a grant.
type grantedClaims interface {
	ClaimGranted(context.Context, enginecore.ClaimGrantedCall) (enginecore.ClaimGrantedReply, error)
}

// batchedStarts submits several runs of a flow with one call.
type batchedStarts interface {
	SubmitMany(context.Context, enginecore.SubmitManyCall) (enginecore.SubmitManyReply, error)
}

// batchedCompletions commits several results with one call.
type batchedCompletions interface {
	CompleteMany(context.Context, enginecore.CompleteManyCall) (enginecore.CompleteManyReply, error)
}

// partitionChoice marks a backend whose Claim takes several partitions and picks one of those on its server.
type partitionChoice interface{ choosesPartitions() }

// compositeLibrary is the function library of this project, which can be replaced by another build.
type compositeLibrary interface {
	Version(context.Context, enginecore.VersionCall) (enginecore.VersionReply, error)
}

// maintenance repairs records and indexes and removes what was kept long enough. Its calls are sent together, for several
// partitions.
type maintenance interface {
	pipeliner
	DropAdmissions(context.Context, enginecore.DropAdmissionsCall) (enginecore.DropAdmissionsReply, error)
	VerifyBudgetUse(context.Context, enginecore.VerifyBudgetUseCall) (enginecore.VerifyBudgetUseReply, error)
	BudgetDone(context.Context, enginecore.BudgetDoneCall) (enginecore.BudgetDoneReply, error)
}

// overdueIndexes works off indexes of a backend whose tick does not.
type overdueIndexes interface {
	overdue() []overdueIndex
}

// overdueIndex is an index, ordered by time, of entries that a task has to work off.
type overdueIndex struct {
	task   taskID
	family enginecore.Family
	// every is how often a partition is looked at.
	every time.Duration
	// key is the key of the index in a partition.
	key func(enginecore.Partition) string
	// work works off entries that are due and returns how many were worked off.
	work func(ctx context.Context, p enginecore.Partition, due []string, now time.Time) (int64, error)
}

// laneDirectory knows lanes that executions use.
type laneDirectory interface {
	// knownLanes returns the lanes that were seen so far, with more of them, in order.
	knownLanes(more []enginecore.LaneID) []enginecore.LaneID
}

// completionFollower finishes what follows from the end of an execution where the process that ended it does not.
type completionFollower interface {
	// followCompletions works until ctx ends.
	followCompletions(ctx context.Context)
}

// isOneServer reports whether a claim can leave it to the server which partition it visits: one server has all of them.
func (s *session) isOneServer() bool {
	return has[partitionChoice](s.backend) && s.client.Mode() != rueidis.ClientModeCluster
}
