package starttest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Each of many runs is started once, with its outcome at its index, also runs of flows that are started one by one, and
// runs of a repeated call.
func TestStartMany(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		def := fixture.ChainOf(t, a, 2)
		b.KeepingWorker(t, []activity.Handler{a})
		const count = 200
		runs := make([]runtime.NewRun[int], count)
		for i := range runs {
			runs[i] = runtime.NewRun[int]{Input: i, Options: []runtime.StartOption{runtime.WithID(fmt.Sprintf("run-%d", i))}}
		}
		runs[7].Options = []runtime.StartOption{runtime.WithID("")}
		runs[8].Options = nil
		runs[9] = runtime.NewRun[int]{Input: 10, Options: runs[10].Options} // twice the same
		runs[11].Options = runs[12].Options                                 // and two that are not
		for again := range 2 {
			started, err := runtime.StartMany(ctx, b.Client, def, runs)
			require.NoError(t, err)
			require.Len(t, started, count)
			conflicts := 0
			for i, s := range started {
				switch i {
				case 7:
					require.ErrorIs(t, s.Err, runtime.ErrInvalid)
					require.Nil(t, s.Run)
				case 11, 12:
					if s.Err != nil {
						require.ErrorIs(t, s.Err, engine.ErrRunConflict)
						conflicts++
					}
				default:
					require.NoError(t, s.Err)
					require.True(t, again == 0 || s.Run.Existed() || i == 8, i)
					out, err := s.Run.Result(ctx)
					require.NoError(t, err)
					want := i + 2
					if i == 9 {
						want = 12
					}
					require.Equal(t, want, out)
				}
			}
			require.Equal(t, 1, conflicts)
		}
		_, err := runtime.StartMany(ctx, b.Client, def, make([]runtime.NewRun[int], 10_001))
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, "at most 10000")
		none, err := runtime.StartMany(ctx, b.Client, def, nil)
		require.NoError(t, err)
		require.Empty(t, none)
		b.Settle(t)
	})
}

// Runs with large data are divided into several calls. Runs of a flow with waits and budgets are started as well.
func TestStartManyOfAllSorts(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def, handlers := fixture.SmallFlow(t)
		b.KeepingWorker(t, handlers, runtime.WorkerConfig{Lanes: []string{"default", "slow"}})
		started, err := runtime.StartMany(ctx, b.Client, def, make([]runtime.NewRun[int], 20))
		require.NoError(t, err)
		for _, s := range started {
			require.NoError(t, s.Err)
			out, err := s.Run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 4, out)
		}
		echo := activity.New("echo", func(_ context.Context, s string) (int, error) { return len(s), nil })
		f := flow.New[string, int]("texts")
		flow.Return(f, flow.Node(f, "echo", echo, f.Input()))
		large, err := f.Build()
		require.NoError(t, err)
		texts := make([]runtime.NewRun[string], 40)
		for i := range texts {
			texts[i].Input = strings.Repeat("x", 30_000+i)
		}
		b.Worker(t, []activity.Handler{echo})
		many, err := runtime.StartMany(ctx, b.Client, large, texts)
		require.NoError(t, err)
		for i, s := range many {
			require.NoError(t, s.Err)
			out, err := s.Run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 30_000+i, out)
		}
		b.Settle(t)
	})
}

// Many runs take few calls. The test is alone on its servers.
func TestCallsOfStartMany(t *testing.T) {
	enginetest.EachAlone(t, func(t *testing.T, b *enginetest.Bench) {
		if b.Kind == testserver.Embedded {
			t.Skip("the embedded engine does not count its commands")
		}
		ctx := enginetest.Context(t)
		def := fixture.ChainOf(t, fixture.AddOne(), 1)
		const count, partitions, ofOneCall, atATime = 1000, 4, 64, 8
		const full = (count + ofOneCall - 1) / ofOneCall
		start := func() int64 {
			_, before := fixture.Commands(ctx, t, b)
			started, err := runtime.StartMany(ctx, b.Client, def, make([]runtime.NewRun[int], count))
			require.NoError(t, err)
			for _, s := range started {
				require.NoError(t, s.Err)
			}
			_, after := fixture.Commands(ctx, t, b)
			return after - before
		}
		// Each of the first calls may find that none of the partitions has the graph: then it starts their runs, stores
		// the graph, and starts them again.
		require.LessOrEqual(t, start(), int64(full+atATime*partitions*3))
		require.EqualValues(t, full, start(), "calls on one server are full")
	})
}
