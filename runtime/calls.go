package runtime

import (
	"cmp"
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// calls is what the runtime asks of an engine. The library's composite calls answer it one to one; in contract mode
// the same is put together from ff_* functions. Errors are those of enginecore in both.
type calls interface {
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
	// renewAll renews the leases of several partitions. The replies stand in the order of the calls; the error joins
	// theirs.
	renewAll(context.Context, []enginecore.RenewCall) ([]answer[enginecore.RenewReply], error)
	// claimable are keys of a lane in a partition of which one exists when there is something to claim.
	claimable(enginecore.Partition, enginecore.LaneID) []string
	// pollEvery is how often a worker has to look for work that nobody tells it of; 0 when it always hears.
	pollEvery() time.Duration

	// attend does what a keeper does by the way, until ctx ends or there is nothing of the kind.
	attend(ctx context.Context)
	Tick(context.Context, enginecore.TickCall) (enginecore.TickReply, error)
	// keepAll does what is due in several partitions, as renewAll renews.
	keepAll(context.Context, []enginecore.KeepCall) ([]answer[enginecore.KeepReply], error)
	EndLeases(context.Context, enginecore.EndLeasesCall) (enginecore.EndLeasesReply, error)
}

// answer is the reply of one of several calls, or its error.
type answer[R any] struct {
	reply R
	err   error
}

// composites are the calls of the whole library.
type composites struct{ *enginecore.Engine }

func (c composites) renewAll(ctx context.Context, calls []enginecore.RenewCall) ([]answer[enginecore.RenewReply], error) {
	return sendAll(ctx, c.Engine, calls)
}

func (c composites) keepAll(ctx context.Context, calls []enginecore.KeepCall) ([]answer[enginecore.KeepReply], error) {
	return sendAll(ctx, c.Engine, calls)
}

func (c composites) awaitEvents(ctx context.Context, news *tail, p enginecore.Partition, id enginecore.FlowID, after string) error {
	return news.await(ctx, []string{c.Keys().FlowEvents(p, id)}, []string{cmp.Or(entryOf(after), fromStart)})
}

func (c composites) claimable(p enginecore.Partition, lane enginecore.LaneID) []string {
	keys := c.Keys()
	return []string{keys.LaneEligible(p, lane), keys.FfxReclaimable(p, lane)}
}

func (composites) attend(context.Context) {}

func (composites) pollEvery() time.Duration { return 0 }

// sendAll sends independent calls in one go.
func sendAll[R any, C enginecore.Call[R]](ctx context.Context, core *enginecore.Engine, calls []C) ([]answer[R], error) {
	pipeline := core.Pipeline()
	results := make([]*enginecore.Result[R], len(calls))
	for i, call := range calls {
		results[i] = enginecore.Add[R](pipeline, call)
	}
	err := pipeline.Run(ctx)
	answers := make([]answer[R], len(calls))
	for i, result := range results {
		answers[i].reply, answers[i].err = result.Get()
	}
	return answers, err
}
