package childtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Frames and logs of items and of nodes of sub-flows are found from the run that they belong to.
func TestStreamsOfChildRuns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		list := activity.New("list", func(context.Context, int) ([]int, error) { return []int{10, 20, 30}, nil })
		say := activity.New("say", func(ctx context.Context, n int) (int, error) {
			activity.Logger(ctx).Info("says", "n", n)
			return n, activity.Emit(ctx, activity.Frame{Kind: "number", Payload: n})
		})
		inner := flow.New[int, int]("inner")
		said := flow.Map(inner, "said", say, flow.Node(inner, "list", list, inner.Input()))
		flow.Return(inner, flow.Node(inner, "count",
			activity.New("count", func(_ context.Context, in []int) (int, error) { return len(in), nil }), said))
		innerDef, err := inner.Build()
		require.NoError(t, err)
		def := around(t, "outer", innerDef)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)

		frames := func(node, after string) (all []fabrictype.Frame) {
			for _, read := range []func(context.Context, string, string) func(func(fabrictype.Frame, error) bool){
				func(ctx context.Context, node, after string) func(func(fabrictype.Frame, error) bool) {
					return run.Frames(ctx, node, after)
				},
				func(ctx context.Context, node, after string) func(func(fabrictype.Frame, error) bool) {
					return run.Stream(ctx, node, after)
				},
			} {
				all = nil
				for f, err := range read(ctx, node, after) {
					require.NoError(t, err)
					all = append(all, f)
				}
			}
			return all
		}
		for i, want := range []int{10, 20, 30} {
			node := "inner/said/" + []string{"item-0", "item-1", "item-2"}[i]
			got := frames(node, "")
			require.Len(t, got, 1)
			var n int
			require.NoError(t, got[0].Decode(&n))
			require.Equal(t, want, n)
			require.Empty(t, frames(node, got[0].Cursor))
			var lines []fabrictype.LogLine
			for line, err := range run.Logs(ctx, node, runtime.LogQuery{Follow: true}) {
				require.NoError(t, err)
				lines = append(lines, line)
			}
			require.Len(t, lines, 1)
			require.Equal(t, "says", lines[0].Message)
		}
		for _, node := range []string{"inner/nobody", "nobody/said", "inner/said/item-3", "inner/list/item-0", "inner/", "/inner"} {
			for _, err := range run.Frames(ctx, node, "") {
				require.ErrorIs(t, err, engine.ErrUnknownNode, node)
			}
		}
		b.Settle(t)
	})
}
