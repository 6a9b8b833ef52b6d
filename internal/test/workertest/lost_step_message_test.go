package workertest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// eachExactlyLossy runs a test with lost messages on the virtual clock alone: programs cannot shorten the intervals of
// the sweeps that make up for them.
func eachExactlyLossy(t *testing.T, test func(t *testing.T, x *lossy)) {
	t.Helper()
	eachLossy(t, func(t *testing.T, x *lossy) {
		if x.isExact {
			test(t, x)
		}
	})
}

// carriedOut waits for something and returns when it was there; on a virtual clock to a second.
func (x *lossy) carriedOut(t *testing.T, what string, is func() bool) time.Time {
	t.Helper()
	enginetest.Eventually(t, func() string {
		if is() {
			return ""
		}
		if x.isExact {
			time.Sleep(time.Second) //nolint:forbidigo // by the virtual clock
		}
		return what
	})
	return time.Now()
}

// The steps of a bulk job are taken when the message of its beginning is lost, with the next sweep of a keeper.
func TestLostBulkJobs(t *testing.T) {
	t.Parallel()
	eachLossy(t, func(t *testing.T, x *lossy) {
		x.start(t, []activity.Handler{fixture.AddOne()})
		ctx := enginetest.Context(t)
		f := flow.New[int, int]("waits")
		flow.Return(f, flow.Waitpoint[int](f, "answer"))
		def := built(t, f)
		const runs = 60 // of several steps
		for range runs {
			startOne(ctx, t, x, def)
		}
		x.lost.LoseChannels(dueChannel)
		begun := time.Now()
		job, err := x.Client.StartBulkJob(ctx, runtime.RunQuery{Flow: "waits"}, fabrictype.BulkAction{Kind: "cancel", Reason: "not needed"}, runtime.BulkOptions{})
		require.NoError(t, err)
		at := x.carriedOut(t, "the job is not over", func() bool {
			job, err = x.Client.BulkJob(job.ID).Describe(ctx)
			require.NoError(t, err)
			return job.State != fabrictype.BulkRunning
		})
		require.EqualValues(t, runs, job.Progress.Done)
		x.within(t, begun, at, x.keeperSweep+10*time.Second)
		x.lostSome(t, dueChannel)
	})
}

// A rerun whose caller is gone is continued when its message is lost, with the next sweep of a keeper, and its nodes
// run with the next sweep of a worker after that when the wake-up is lost too.
func TestLostRerunSteps(t *testing.T) {
	t.Parallel()
	eachLossy(t, func(t *testing.T, x *lossy) {
		work := fixture.AddOne()
		x.start(t, []activity.Handler{work})
		ctx := enginetest.Context(t)
		f := flow.New[int, int]("wide")
		root := flow.Node(f, "root", work, f.Input())
		for i := range 140 {
			flow.Node(f, fmt.Sprint("n", i), work, root)
		}
		flow.Return(f, root)
		def := built(t, f)
		run := startOne(ctx, t, x, def)
		_, err := run.Result(ctx)
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		plan, err := fixture.NewPlan(x.Client, def, 1, run.ID())
		require.NoError(t, err)
		call := enginerpc.RerunCall{Partition: plan.Partition, FlowID: plan.FlowID, RerunID: "x", Mode: "all", Actor: "me", Begin: true}
		for _, n := range d.Nodes {
			call.Nodes = append(call.Nodes, enginecore.ExecutionID(n.ExecutionID))
		}
		x.lost.LoseChannels(dueChannel, wakeChannels, ringChannels)
		begun := time.Now()
		reply, err := engine.ConnOf(x.Engine.Internal()).Rerun(ctx, call)
		require.NoError(t, err)
		require.True(t, reply.More)
		at := x.carriedOut(t, "the run is not over", func() bool { return hasEnded(ctx, t, run) })
		d, err = run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunSucceeded, d.State)
		x.within(t, begun, at, x.keeperSweep+x.workerSweep+10*time.Second)
		x.lostSome(t, "ffx:")
	})
}

// A worker drains when the message with the request is lost, with its next report.
func TestLostDrains(t *testing.T) {
	t.Parallel()
	eachExactlyLossy(t, func(t *testing.T, x *lossy) {
		x.start(t, []activity.Handler{fixture.AddOne()})
		ctx := enginetest.Context(t)
		x.lost.LoseChannels(workerChannel)
		list, err := x.Client.Workers(ctx)
		require.NoError(t, err)
		require.Len(t, list, 1)
		begun := time.Now()
		require.NoError(t, x.Client.DrainWorker(ctx, list[0].Instance))
		at := x.carriedOut(t, "the worker does not drain", func() bool {
			list, err = x.Client.Workers(ctx)
			require.NoError(t, err)
			return len(list) == 1 && list[0].State == "draining"
		})
		x.within(t, begun, at, 61*time.Second)
		x.lostSome(t, workerChannel)
	})
}

// An execution that a worker could not run, because it does not know the activity, is run by a worker that knows it
// when the message is lost, with that worker's next sweep. The first worker may try it once more then, with a message
// that arrives.
func TestLostSetAsides(t *testing.T) {
	t.Parallel()
	eachExactlyLossy(t, func(t *testing.T, x *lossy) {
		carried, busy, free := make(chan time.Time, 1), make(chan struct{}), make(chan struct{})
		rare := noting(1, carried)
		block := activity.New("block", func(context.Context, int) (int, error) {
			close(busy)
			<-free
			return 0, nil
		})
		x.Keeper(t)
		x.Worker(t, []activity.Handler{rare, block}, runtime.WorkerConfig{Concurrency: 1})
		startOne(enginetest.Context(t), t, x, fixture.Single(t, block))
		<-busy
		x.Worker(t, []activity.Handler{fixture.AddOne()})
		time.Sleep(time.Hour) //nolint:forbidigo // by the virtual clock
		ctx := enginetest.Context(t)
		var asides atomic.Int64
		x.lost.Lose(func(channel, text string) bool {
			return strings.HasPrefix(channel, wakeChannels) && strings.HasPrefix(text, "aside") && asides.Add(1) == 1
		})
		run := startOne(ctx, t, x, fixture.Single(t, rare))
		x.lostSome(t, wakeChannels)
		close(free)
		begun := time.Now()
		x.within(t, begun, <-carried, 61*time.Second)
		_, err := run.Result(ctx)
		require.NoError(t, err)
	})
}
