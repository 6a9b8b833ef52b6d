package childtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// plusOne is a flow of one node.
func plusOne(t testing.TB, name string, a *activity.Activity[int, int]) *flow.Definition[int, int] {
	f := flow.New[int, int](name)
	flow.Return(f, flow.Node(f, "add", a, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// around is a flow that runs another one.
func around(t testing.TB, name string, inner *flow.Definition[int, int], opts ...flow.NodeOption) *flow.Definition[int, int] {
	f := flow.New[int, int](name)
	flow.Return(f, flow.Sub(f, "inner", inner, f.Input(), opts...))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func TestSubFlowNested(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		def := around(t, "outermost", around(t, "outer", around(t, "middle", plusOne(t, "core", add))))
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 4, runtime.WithID("r"))
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, out)
		d, err := b.Client.Run("outer", "outermost/r/inner").Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunSucceeded, d.State)
		require.Len(t, b.Settle(t).FlowIDs(), 4)
		require.NoError(t, run.Purge(ctx))
		enginetest.Eventually(t, func() string {
			if n := len(b.Settle(t).FlowIDs()); n > 0 {
				return "runs are left"
			}
			return ""
		})
	})
}

// A worker caches the graph of a node's run for as long as it starts the child run, however many other runs it reads in
// that time.
func TestSubFlowsOfManyRuns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const runs, nodes = 64, 4 // more runs than graphs that a worker keeps
		add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		f := flow.New[int, int]("several")
		inner, last := plusOne(t, "core", add), f.Input()
		for i := range nodes {
			last = flow.Sub(f, fmt.Sprint("inner-", i), inner, last)
		}
		flow.Return(f, last)
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: runs})
		var started []*runtime.Run[int]
		for i := range runs {
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			started = append(started, run)
		}
		for i, run := range started {
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, i+nodes, out)
		}
	})
}

// Each further attempt of the node reruns the failed nodes of its one child run, until no attempt is left.
func TestSubFlowRetried(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var first, second, healthy atomic.Int64
		good := activity.New("good", func(_ context.Context, n int) (int, error) { first.Add(1); return n, nil })
		bad := activity.New("bad", func(_ context.Context, n int) (int, error) {
			if second.Add(1) < 3 || healthy.Load() > 0 {
				return 0, activity.NonRetryable(errBad)
			}
			return n + 1, nil
		})
		f := flow.New[int, int]("two")
		flow.Return(f, flow.Node(f, "bad", bad, flow.Node(f, "good", good, f.Input())))
		inner, err := f.Build()
		require.NoError(t, err)
		def := around(t, "tries", inner, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 3, Factor: 1}))
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, out)
		require.EqualValues(t, 1, first.Load(), "succeeded nodes do not run again")
		require.EqualValues(t, 3, second.Load())
		require.Len(t, b.Settle(t).FlowIDs(), 2)

		healthy.Store(1)
		run, err = runtime.Start(ctx, b.Client, def, 2)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorContains(t, err, "node bad: bad item")
		require.EqualValues(t, 6, second.Load())
		healthy.Store(0)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		out, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, out)
		require.EqualValues(t, 2, first.Load())
		require.EqualValues(t, 7, second.Load())
		require.Len(t, b.Settle(t).FlowIDs(), 4)
	})
}

// held is an activity that runs until its context ends.
func held(started chan<- struct{}, ended *atomic.Int64) *activity.Activity[int, int] {
	return activity.New("held", func(ctx context.Context, _ int) (int, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended.Add(1)
		return 0, context.Cause(ctx)
	})
}

// A cancel of the parent reaches the child with its reason, and stops all work of the child.
func TestSubFlowCancelledWithParent(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		started := make(chan struct{}, 1)
		var ended atomic.Int64
		def := around(t, "outer", around(t, "middle", plusOne(t, "core", held(started, &ended))))
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 4, runtime.WithID("r"))
		require.NoError(t, err)
		<-started
		require.NoError(t, b.Client.Run("outer", "r").Cancel(ctx, "not needed"))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		b.Settle(t)
		require.EqualValues(t, 1, ended.Load())
		d, err := b.Client.Run("core", "middle/outer/r/inner/inner").Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunCancelled, d.State)
		require.Equal(t, "not needed", d.CancelReason)
	})
}
