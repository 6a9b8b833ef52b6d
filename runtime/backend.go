package runtime

import (
	"cmp"
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// backend answers the calls that clients, workers and keepers make to every engine. The composite functions of the library
// answer each of them with one call; contract mode puts the same together from ff_* functions. What only some backends can do
// is a capability: see capability. Errors are those of enginecore in both.
type backend interface {
	SubmitFlow(context.Context, enginecore.SubmitFlowCall) (enginecore.SubmitFlowReply, error)
	CancelFlow(context.Context, enginecore.CancelFlowCall) (enginecore.CancelFlowReply, error)
	FlowResult(context.Context, enginecore.FlowResultCall) (enginecore.FlowResultReply, error)
	FlowFailures(context.Context, enginecore.FlowFailuresCall) (enginecore.FlowFailuresReply, error)
	DescribeFlow(context.Context, enginecore.DescribeFlowCall) (enginecore.DescribeFlowReply, error)
	ListRuns(context.Context, enginecore.ListRunsCall) (enginecore.ListRunsReply, error)
	ReadEvents(context.Context, enginecore.ReadEventsCall) (enginecore.ReadEventsReply, error)
	// awaitEvents returns when a run may have events after the given one ("" is before its first).
	awaitEvents(ctx context.Context, news *tail, p enginecore.Partition, id enginecore.FlowID, after string) error

	Claim(context.Context, enginecore.ClaimCall) (enginecore.ClaimReply, error)
	ReadInputs(context.Context, enginecore.ReadInputsCall) (enginecore.ReadInputsReply, error)
	UpdateProgress(context.Context, enginecore.UpdateProgressCall) (enginecore.UpdateProgressReply, error)
	Complete(context.Context, enginecore.CompleteCall) (enginecore.CompleteReply, error)
	Fail(context.Context, enginecore.FailCall) (enginecore.FailReply, error)
	Release(context.Context, enginecore.ReleaseCall) (enginecore.ReleaseReply, error)
	Announce(context.Context, enginecore.AnnounceCall) (enginecore.AnnounceReply, error)
	// renewAll renews the leases of several partitions. The replies are in the order of the calls; the error joins theirs.
	renewAll(context.Context, []enginecore.RenewCall) ([]callResult[enginecore.RenewReply], error)
	// claimable returns keys of a lane in a partition, of which one exists when there is something to claim.
	claimable(p enginecore.Partition, lane enginecore.LaneID) []string
	// pollEvery is how often a worker has to look for work that no message announces; 0 when all of it is announced.
	pollEvery() time.Duration

	// tickTasks lists the maintenance tasks that Tick and keepAll do.
	tickTasks() []taskID
	Tick(context.Context, enginecore.TickCall) (enginecore.TickReply, error)
	// keepAll does what is due in several partitions. The replies are in the order of the calls; the error joins theirs.
	keepAll(context.Context, []enginecore.KeepCall) ([]callResult[enginecore.KeepReply], error)
	EndLeases(context.Context, enginecore.EndLeasesCall) (enginecore.EndLeasesReply, error)
}

// tickLimit bounds the items that one tick works on, so that it stays well below 5 ms of the server's time.
const tickLimit = 128

// callResult is the reply of one of several calls, or its error.
type callResult[R any] struct {
	reply R
	err   error
}

// pipeliner sends calls together; *enginecore.Engine is one.
type pipeliner interface {
	Pipeline() *enginecore.Pipeline
}

// sendAll sends independent calls in one go. Each result carries its error; the error joins them.
func sendAll[R any, C enginecore.Call[R]](ctx context.Context, p pipeliner, calls []C) ([]callResult[R], error) {
	pipeline := p.Pipeline()
	replies := make([]*enginecore.Result[R], len(calls))
	for i, call := range calls {
		replies[i] = enginecore.Add[R](pipeline, call)
	}
	err := pipeline.Run(ctx)
	results := make([]callResult[R], len(calls))
	for i, reply := range replies {
		results[i].reply, results[i].err = reply.Get()
	}
	return results, err
}

// nativeBackend is the backend of an engine with the whole library. It has all capabilities but overdueIndexes,
// laneDirectory and completionFollower, which are parts of its tick and of its calls.
type nativeBackend struct{ *enginecore.Engine }

var _ interface {
	backend
	runControl
	childRuns
	runIndex
	waitStore
	pauseStore
	budgetStore
	scheduleCalls
	limitStore
	grantedClaims
	batchedStarts
	batchedCompletions
	partitionChoice
	compositeLibrary
	maintenance
} = nativeBackend{}

func (b nativeBackend) renewAll(ctx context.Context, calls []enginecore.RenewCall) ([]callResult[enginecore.RenewReply], error) {
	return sendAll(ctx, b.Engine, calls)
}

func (b nativeBackend) keepAll(ctx context.Context, calls []enginecore.KeepCall) ([]callResult[enginecore.KeepReply], error) {
	return sendAll(ctx, b.Engine, calls)
}

func (b nativeBackend) awaitEvents(ctx context.Context, news *tail, p enginecore.Partition, id enginecore.FlowID, after string) error {
	return news.await(ctx, []string{b.Keys().FlowEvents(p, id)}, []string{cmp.Or(entryOf(after), fromStart)})
}

func (b nativeBackend) claimable(p enginecore.Partition, lane enginecore.LaneID) []string {
	keys := b.Keys()
	return []string{keys.LaneEligible(p, lane), keys.FfxReclaimable(p, lane)}
}

func (nativeBackend) pollEvery() time.Duration { return 0 }

func (nativeBackend) tickTasks() []taskID {
	return []taskID{
		taskDelayedPromotion, taskLeaseExpiry, taskAttemptTimeout, taskExecutionDeadline, taskCancelBacklog, taskStartDeadline,
		taskFlowDeadline, taskPropagation, taskSiblingCancelDispatch, taskSchedule, taskPauseRecheck, taskRerun, taskChildRuns,
		taskAdmission, taskRetention, taskSuspensionTimeout, taskPendingWaitpointExpiry,
	}
}

func (nativeBackend) choosesPartitions() {}
