package runtime

import (
	"cmp"
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// backend answers the calls that clients, workers and keepers make to every engine. The composite functions of the library
// answer each of them with one call; contract mode puts the same together from ff_* functions. What only some backends can do
// is a capability: see capability. Errors are those of enginecore in both.
type backend interface {
	SubmitFlow(context.Context, enginerpc.SubmitFlowCall) (enginerpc.SubmitFlowReply, error)
	CancelFlow(context.Context, enginerpc.CancelFlowCall) (enginerpc.CancelFlowReply, error)
	FlowResult(context.Context, enginerpc.FlowResultCall) (enginerpc.FlowResultReply, error)
	FlowFailures(context.Context, enginerpc.FlowFailuresCall) (enginerpc.FlowFailuresReply, error)
	DescribeFlow(context.Context, enginerpc.DescribeFlowCall) (enginerpc.DescribeFlowReply, error)
	ListRuns(context.Context, enginerpc.ListRunsCall) (enginerpc.ListRunsReply, error)
	ReadEvents(context.Context, enginerpc.ReadEventsCall) (enginerpc.ReadEventsReply, error)
	// awaitEvents returns when a run may have events after the given one ("" is before its first).
	awaitEvents(ctx context.Context, news *tail, p enginecore.Partition, id enginecore.FlowID, after string) error

	Claim(context.Context, enginerpc.ClaimCall) (enginerpc.ClaimReply, error)
	ReadInputs(context.Context, enginerpc.ReadInputsCall) (enginerpc.ReadInputsReply, error)
	UpdateProgress(context.Context, enginerpc.UpdateProgressCall) (enginerpc.UpdateProgressReply, error)
	Complete(context.Context, enginerpc.CompleteCall) (enginerpc.CompleteReply, error)
	Fail(context.Context, enginerpc.FailCall) (enginerpc.FailReply, error)
	Release(context.Context, enginerpc.ReleaseCall) (enginerpc.ReleaseReply, error)
	Announce(context.Context, enginerpc.AnnounceCall) (enginerpc.AnnounceReply, error)
	// renewAll renews the leases of several partitions. The replies are in the order of the calls; the error joins theirs.
	renewAll(context.Context, []enginerpc.RenewCall) ([]callResult[enginerpc.RenewReply], error)
	// claimable returns keys of a lane in a partition, of which one exists when there is something to claim.
	claimable(p enginecore.Partition, lane enginecore.LaneID) []string
	// pollEvery is how often a worker has to look for work that no message announces; 0 when all of it is announced.
	pollEvery() time.Duration

	// tickTasks lists the maintenance tasks that Tick and keepAll do.
	tickTasks() []taskID
	Tick(context.Context, enginerpc.TickCall) (enginerpc.TickReply, error)
	// keepAll does what is due in several partitions. The replies are in the order of the calls; the error joins theirs.
	keepAll(context.Context, []enginerpc.KeepCall) ([]callResult[enginerpc.KeepReply], error)
	EndLeases(context.Context, enginerpc.EndLeasesCall) (enginerpc.EndLeasesReply, error)
}

// tickLimit bounds the items that one tick works on, so that it stays well below 5 ms of the server's time.
const tickLimit = 128

// callResult is the reply of one of several calls, or its error.
type callResult[R any] struct {
	reply R
	err   error
}

// pipeliner sends calls together; *enginerpc.Conn is one.
type pipeliner interface {
	Pipeline() *enginerpc.Pipeline
}

// sendAll sends independent calls in one go. Each result carries its error; the error joins them.
func sendAll[R any, C enginerpc.Call[R]](ctx context.Context, p pipeliner, calls []C) ([]callResult[R], error) {
	pipeline := p.Pipeline()
	replies := make([]*enginerpc.Result[R], len(calls))
	for i, call := range calls {
		replies[i] = enginerpc.Add[R](pipeline, call)
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
type nativeBackend struct{ *enginerpc.Conn }

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

func (b nativeBackend) renewAll(ctx context.Context, calls []enginerpc.RenewCall) ([]callResult[enginerpc.RenewReply], error) {
	return sendAll(ctx, b.Conn, calls)
}

func (b nativeBackend) keepAll(ctx context.Context, calls []enginerpc.KeepCall) ([]callResult[enginerpc.KeepReply], error) {
	return sendAll(ctx, b.Conn, calls)
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
