package runtime_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// compacted waits until nothing is left of the attempts of a run.
func compacted(t *testing.T, b *enginetest.Bench) {
	t.Helper()
	client := enginerpc.ConnOf(b.Engine).Client()
	enginetest.Eventually(t, enginetest.Patience, func() string {
		keys, err := client.Do(t.Context(), client.B().Keys().Pattern(b.Prefix+":attempt:*").Build()).AsStrSlice()
		if err != nil || len(keys) > 0 {
			return strings.Join(keys, " ")
		}
		return ""
	})
}

// A run that was made smaller is described as before, has its result, and can be run again.
func TestCompaction(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := addOne()
		b.Worker(t, []activity.Handler{a})
		run, err := runtime.Start(ctx, b.Client, chainOf(t, a, 5), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		before, err := run.Describe(ctx)
		require.NoError(t, err)

		keeper := b.Keeper(t, runtime.KeeperConfig{CompactAfter: time.Nanosecond})
		compacted(t, b)
		after, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, before, after)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 6, out)
		b.Settle(t)
		require.NoError(t, keeper.Stop())

		_, err = enginerpc.ConnOf(b.Engine).ReplayExecution(ctx, replayOf(t, b, before, "n2"))
		require.NoError(t, err)
		enginetest.Eventually(t, enginetest.Patience, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if d.Nodes[2].Attempts != 2 || d.OpenNodes != 0 {
				return "the node runs again"
			}
			return ""
		})
		b.Settle(t)
	})
}

// What a failure has skipped can still run once the failed node has been run again.
func TestCompactionOfFailedRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var fails atomic.Bool
		fails.Store(true)
		a, fragile := addOne(), activity.New("fragile", func(_ context.Context, n int) (int, error) {
			if fails.Load() {
				return 0, activity.NonRetryable(errors.New("broken"))
			}
			return n + 1, nil
		})
		b.Worker(t, []activity.Handler{a, fragile})
		f := flow.New[int, int]("failing")
		first := flow.Node(f, "first", a, f.Input())
		broken := flow.Node(f, "second", fragile, first)
		flow.Return(f, flow.Node(f, "third", a, broken))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		keeper := b.Keeper(t, runtime.KeeperConfig{CompactAfter: time.Nanosecond})
		compacted(t, b)
		require.NoError(t, keeper.Stop())

		fails.Store(false)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		for _, name := range []string{"second", "third"} {
			_, err = enginerpc.ConnOf(b.Engine).ReplayExecution(ctx, replayOf(t, b, d, name))
			require.NoError(t, err)
		}
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 4, out)
		b.Settle(t)
	})
}

func replayOf(t *testing.T, b *enginetest.Bench, d *runtime.RunDescription, name string) enginerpc.ReplayExecutionCall {
	t.Helper()
	for _, n := range d.Nodes {
		if n.Name == name {
			keys := enginerpc.ConnOf(b.Engine).Keys()
			client := enginerpc.ConnOf(b.Engine).Client()
			edges, err := client.Do(t.Context(), client.B().Smembers().Key(keys.ExecDepsAllEdges(n.ExecutionID)).Build()).AsStrSlice()
			require.NoError(t, err)
			call := enginerpc.ReplayExecutionCall{ExecutionID: n.ExecutionID, LaneID: "default"}
			for _, e := range edges {
				call.Edges = append(call.Edges, enginecore.EdgeID(e))
			}
			return call
		}
	}
	t.Fatalf("no node %q", name)
	return enginerpc.ReplayExecutionCall{}
}
