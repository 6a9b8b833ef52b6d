package childtest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A run id can be reused as soon as Purge has returned: the new run has its own child runs, though with the ids of the
// former ones, and a keeper that knows the former ones does not change them.
func TestPurgedRunIDIsReusable(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var generation atomic.Int64
		count := activity.New("count", func(context.Context, int) (int64, error) { return generation.Load(), nil })
		inner := flow.New[int, []int64]("inner")
		flow.Return(inner, flow.Map(inner, "each", count, flow.Node(inner, "list", numbers(), inner.Input())))
		sub, err := inner.Build()
		require.NoError(t, err)
		f := flow.New[int, []int64]("outer")
		flow.Return(f, flow.Sub(f, "sub", sub, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		for i := range int64(20) {
			generation.Store(i)
			n := int(1 + i%2) // sometimes another input, sometimes the same
			run, err := runtime.Start(ctx, b.Client, def, n, runtime.WithID("same"))
			require.NoError(t, err)
			require.False(t, run.Existed())
			list, err := run.Result(ctx)
			require.NoError(t, err)
			require.Len(t, list, n)
			for _, by := range list {
				require.Equal(t, i, by, "the result is from a former run")
			}
			require.NoError(t, run.Purge(ctx))
		}
		b.Settle(t)
	})
}
