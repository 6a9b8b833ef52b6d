package viewtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A start after a deploy that changed options of the flow alone is the same run, which keeps those that it has; errors
// say whether an input or a graph is another one.
func TestStartAfterOptionsChanged(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		build := func(shape func(f *flow.Builder[int, int]) flow.Ref[int], opts ...flow.Option) *flow.Definition[int, int] {
			f := flow.New[int, int]("price", opts...)
			flow.Return(f, shape(f))
			def, err := f.Build()
			require.NoError(t, err)
			return def
		}
		one := func(opts ...flow.NodeOption) func(f *flow.Builder[int, int]) flow.Ref[int] {
			return func(f *flow.Builder[int, int]) flow.Ref[int] {
				return flow.Node(f, "double", double, f.Input(), opts...)
			}
		}
		former := build(one())
		later := build(one(activity.StartToClose(time.Minute), activity.Priority(7), activity.Retry(activity.RetryPolicy{Attempts: 1})),
			flow.Describe("the price"), flow.Deadline(time.Hour), flow.Tag("team.name", "shop"))
		other := build(func(f *flow.Builder[int, int]) flow.Ref[int] {
			return flow.Node(f, "again", double, flow.Node(f, "double", double, f.Input()))
		})
		require.NotEqual(t, former.Hash(), later.Hash())

		run, err := runtime.Start(ctx, b.Client, former, 4, runtime.WithID("A-1"))
		require.NoError(t, err)
		same, err := runtime.Start(ctx, b.Client, later, 4, runtime.WithID("A-1"))
		require.NoError(t, err)
		require.True(t, same.Existed())
		d, err := same.Describe(ctx)
		require.NoError(t, err)
		require.Zero(t, d.DeadlineAt)

		refused := func(def *flow.Definition[int, int], in int, is, not error) {
			_, err := runtime.Start(ctx, b.Client, def, in, runtime.WithID("A-1"))
			require.ErrorIs(t, err, engine.ErrRunConflict)
			require.ErrorIs(t, err, is)
			require.NotErrorIs(t, err, not)
			require.ErrorContains(t, err, "start run A-1 of flow price")
		}
		refused(former, 5, engine.ErrOtherInput, engine.ErrOtherGraph)
		refused(later, 5, engine.ErrOtherInput, engine.ErrOtherGraph)
		refused(other, 4, engine.ErrOtherGraph, engine.ErrOtherInput)
		refused(other, 5, engine.ErrOtherGraph, engine.ErrOtherInput)

		many, err := runtime.StartMany(ctx, b.Client, later, []runtime.NewRun[int]{
			{Input: 4, Options: []runtime.StartOption{runtime.WithID("A-1")}},
			{Input: 5, Options: []runtime.StartOption{runtime.WithID("A-1")}},
		})
		require.NoError(t, err)
		require.NoError(t, many[0].Err)
		require.True(t, many[0].Run.Existed())
		require.ErrorIs(t, many[1].Err, engine.ErrOtherInput)

		b.Worker(t, []activity.Handler{double})
		b.Keeper(t)
		out, err := same.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 8, out)
		out, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 8, out)
		b.Settle(t)
	})
}
