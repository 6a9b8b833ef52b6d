package engine

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/feeds"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Backend answers the calls that clients, workers and keepers make to every engine. The native backend sends each call
// as one composite function of the whole library; the backend of contract mode combines ff_* functions. [Library]
// has the calls that only the native backend answers, [Stepwise] the calls that only contract mode needs. Both backends
// return the errors of package enginecore.
type Backend interface {
	CancelFlow(context.Context, enginerpc.CancelFlowCall) (enginerpc.CancelFlowReply, error)
	FlowResult(context.Context, enginerpc.FlowResultCall) (enginerpc.FlowResultReply, error)
	// WatchRun does the same for a process that waits for the end of the run.
	WatchRun(context.Context, enginerpc.WatchRunCall) (enginerpc.WatchRunReply, error)
	FlowFailures(context.Context, enginerpc.FlowFailuresCall) (enginerpc.FlowFailuresReply, error)
	DescribeFlow(context.Context, enginerpc.DescribeFlowCall) (enginerpc.DescribeFlowReply, error)
	ListRuns(context.Context, enginerpc.ListRunsCall) (enginerpc.ListRunsReply, error)
	ReadEvents(context.Context, enginerpc.ReadEventsCall) (enginerpc.ReadEventsReply, error)
	// FollowEvents returns a follower that is notified of new events of a run. The caller closes it.
	FollowEvents(p keyspace.Partition, id enginecore.FlowID) feeds.Follower

	// ReadValues reads values of runs and their nodes with a bound.
	ReadValues(context.Context, enginerpc.ReadValuesCall) (enginerpc.ReadValuesReply, error)

	// Suspend and the calls after it are for the waits and waitpoints of executions.
	Suspend(context.Context, enginerpc.SuspendCall) (enginerpc.SuspendReply, error)
	OpenWaitpoint(context.Context, enginerpc.OpenWaitpointCall) (enginerpc.OpenWaitpointReply, error)
	Signal(context.Context, enginerpc.SignalCall) (enginerpc.SignalReply, error)
	ListWaitpoints(context.Context, enginerpc.ListWaitpointsCall) (enginerpc.ListWaitpointsReply, error)
	EndWait(context.Context, enginerpc.EndWaitCall) (enginerpc.EndWaitReply, error)

	Claim(context.Context, enginerpc.ClaimCall) (enginerpc.ClaimReply, error)
	// ClaimGranted claims an execution by a grant.
	ClaimGranted(context.Context, enginerpc.ClaimGrantedCall) (enginerpc.ClaimGrantedReply, error)
	ReadInputs(context.Context, enginerpc.ReadInputsCall) (enginerpc.ReadInputsReply, error)
	UpdateProgress(context.Context, enginerpc.UpdateProgressCall) (enginerpc.UpdateProgressReply, error)
	Complete(context.Context, enginerpc.CompleteCall) (enginerpc.CompleteReply, error)
	Fail(context.Context, enginerpc.FailCall) (enginerpc.FailReply, error)
	Release(context.Context, enginerpc.ReleaseCall) (enginerpc.ReleaseReply, error)
	// CancelExecution, DelayExecution, MoveToWaitingChildren and SuspendExecution end a lease, as the contract defines
	// them; they also perform the consequences of the end of an execution.
	CancelExecution(context.Context, enginerpc.CancelExecutionCall) (enginerpc.CancelExecutionReply, error)
	DelayExecution(context.Context, enginerpc.DelayExecutionCall) (enginerpc.DelayExecutionReply, error)
	MoveToWaitingChildren(
		context.Context, enginerpc.MoveToWaitingChildrenCall,
	) (enginerpc.MoveToWaitingChildrenReply, error)
	SuspendExecution(context.Context, enginerpc.SuspendExecutionCall) (enginerpc.SuspendExecutionReply, error)
	Announce(context.Context, enginerpc.AnnounceCall) (enginerpc.AnnounceReply, error)
	Renew(context.Context, enginerpc.RenewCall) (enginerpc.RenewReply, error)
	// Claimable returns keys of a shard, at least one of which exists when the shard has something to claim.
	Claimable(p keyspace.Partition, lane enginecore.LaneID) []string
	// PollEvery is how often a worker has to search for work that no message announces; 0 when all work is announced.
	PollEvery() time.Duration

	// TickTasks lists the keeper tasks that Tick and KeepAll perform.
	TickTasks() []TaskID
	Tick(context.Context, enginerpc.TickCall) (enginerpc.TickReply, error)
	// KeepAll performs the work that is due in several partitions. The replies are in the order of the calls; the
	// error joins the errors of the calls.
	KeepAll(context.Context, []enginerpc.KeepCall) ([]batching.CallResult[enginerpc.KeepReply], error)
	EndLeases(context.Context, enginerpc.EndLeasesCall) (enginerpc.EndLeasesReply, error)
}

// TickLimit bounds the items that one tick works on, so that it stays well below 5 ms of the server's time.
const TickLimit = 128

// nativeBackend is the backend of an engine with the whole library.
type nativeBackend struct {
	*enginerpc.Conn
	feeds *feeds.Events
}

var _ Library = nativeBackend{}

// KeepAll implements [Backend].
func (b nativeBackend) KeepAll(
	ctx context.Context, calls []enginerpc.KeepCall,
) ([]batching.CallResult[enginerpc.KeepReply], error) {
	return batching.SendAll(ctx, b.Conn, calls)
}

// FollowEvents implements [Backend]. The feed of the partition announces the events.
func (b nativeBackend) FollowEvents(p keyspace.Partition, id enginecore.FlowID) feeds.Follower {
	return b.feeds.Follow(p, id)
}

// Claimable implements [Backend]: the keys are the eligible and the abandoned executions.
func (b nativeBackend) Claimable(p keyspace.Partition, lane enginecore.LaneID) []string {
	keys := b.Keys()
	return []string{keys.LaneEligible(p, lane), keys.FfxReclaimable(p, lane)}
}

// PollEvery implements [Backend]: messages announce all work.
func (nativeBackend) PollEvery() time.Duration { return 0 }

// TickTasks implements [Backend].
func (nativeBackend) TickTasks() []TaskID {
	return []TaskID{
		TaskDelayedPromotion, TaskLeaseExpiry, TaskAttemptTimeout, TaskExecutionDeadline, TaskCancelBacklog,
		TaskStartDeadline,
		TaskFlowDeadline, TaskPropagation, TaskSiblingCancelDispatch, TaskSchedule, TaskPauseRecheck, TaskRerun,
		TaskChildRuns,
		TaskAdmission, TaskRetention, TaskSuspensionTimeout, TaskPendingWaitpointExpiry, TaskBulkJob,
		TaskRunKey,
	}
}
