package graphtest

import (
	"context"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// panicBelow panics with depth frames of its own recursion on the stack.
func panicBelow(depth int) int {
	if depth == 0 {
		panic("no bottom")
	}
	return panicBelow(depth-1) + 1
}

// attemptsOf returns the attempts of the only node of a run.
func attemptsOf(ctx context.Context, t *testing.T, run *runtime.Run[int]) []fabrictype.Attempt {
	t.Helper()
	d, err := run.Describe(ctx, runtime.DescribeOptions{Attempts: true})
	require.NoError(t, err)
	return d.Nodes[0].History
}

// An attempt has the stack of its panic and the build of its worker, through a rerun and when the worker is forgotten.
func TestAttemptsKeepStackAndBuild(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("shaky", func(ctx context.Context, n int) (int, error) {
			switch info, _ := activity.Info(ctx); info.Attempt {
			case 1:
				return panicBelow(2), nil
			case 2:
				goruntime.Goexit()
			case 3:
				return panicBelow(1000), nil
			}
			return n, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 3, Factor: 1}))
		def := fixture.OneNode(t, "shaky", a)
		run, err := runtime.Start(ctx, b.Client, def, 7)
		require.NoError(t, err)
		w := b.KeepingWorker(t, def.Handlers())
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		worker := fixture.Listed(ctx, t, b.Client, "one", fixture.Number(1))[0]
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.NoError(t, w.Stop())
		operator := b.Operator()
		home := b.Prefix + ":ffx:{fp:0}:"
		forget := operator.B().Del().Key(home+"worker_record:"+worker.Instance, home+"worker_reports").Build()
		require.NoError(t, operator.Do(ctx, forget).Error())

		got := attemptsOf(ctx, t, run)
		require.Len(t, got, 4)
		for i, attempt := range got {
			require.Equal(t, &worker.Build, attempt.Build, i)
			require.Equal(t, i < 3, attempt.Stack != "", i)
		}
		require.Equal(t, [2]string{"panic: no bottom", "panic: no bottom"}, [2]string{got[0].Error, got[2].Error})
		require.True(t, strings.HasPrefix(got[0].Stack, "goroutine "))
		require.Contains(t, got[0].Stack, "graphtest.panicBelow")
		require.Contains(t, got[0].Stack, "attempts_test.go:")
		require.NotContains(t, got[0].Stack, "debug.Stack", "the frames that asked for it are left out")
		require.Contains(t, got[1].Stack, "attempts_test.go:")
		require.Greater(t, len(got[2].Stack), 8000)
		require.Less(t, len(got[2].Stack), 8<<10+50)
		require.Regexp(t, `… \([0-9]+ bytes\)$`, got[2].Stack)
		require.Equal(t, 1, got[3].Replay)
		n, err := run.DescribeNode(ctx, "node")
		require.NoError(t, err)
		require.Equal(t, got, n.History)

		require.NoError(t, b.Client.Run("shaky", run.ID()).Purge(ctx))
		_, err = run.Describe(ctx, runtime.DescribeOptions{Attempts: true})
		require.ErrorIs(t, err, engine.ErrRunNotFound)
		b.Settle(t)
	})
}

// A run keeps a bounded amount of stacks, and replaces each further one by a remark.
func TestStacksOfARunAreBounded(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("hopeless", func(context.Context, int) (int, error) { return panicBelow(1000), nil },
			activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 3, Factor: 1}))
		def := fixture.OneNode(t, "hopeless", a)
		run, err := runtime.Start(ctx, b.Client, def, 7)
		require.NoError(t, err)
		conn := engine.ConnOf(b.Engine.Internal())
		p, err := conn.FlowPartition(run.FlowID())
		require.NoError(t, err)
		full := map[string]string{"stack_bytes": strconv.Itoa(1<<20 - 10000)} // as if others had panicked before
		require.NoError(t, rowread.SetFlow(ctx, conn.Client(), conn.Keys(), p, run.FlowID(), full))
		b.KeepingWorker(t, def.Handlers())
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		got := attemptsOf(ctx, t, run)
		require.Len(t, got, 3)
		require.True(t, strings.HasPrefix(got[0].Stack, "goroutine "))
		for _, attempt := range got[1:] {
			require.Equal(t, "the stack is left out: those of this run have 1048576 bytes", attempt.Stack)
			require.Equal(t, "panic: no bottom", attempt.Error)
		}
		b.Settle(t)
	})
}
