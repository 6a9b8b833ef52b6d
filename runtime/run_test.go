package runtime_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// addOne is the plainest activity.
func addOne() *activity.Activity[int, int] {
	return activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
}

// chainOf is a flow of n nodes in a row.
func chainOf(t testing.TB, a *activity.Activity[int, int], n int, opts ...flow.Option) *flow.Definition[int, int] {
	t.Helper()
	f := flow.New[int, int]("chain", opts...)
	ref := flow.Node(f, "n0", a, f.Input())
	for i := 1; i < n; i++ {
		ref = flow.Node(f, fmt.Sprintf("n%d", i), a, ref)
	}
	flow.Return(f, ref)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func TestChain(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := addOne()
		b.Worker(t, []activity.Handler{a})
		def := chainOf(t, a, 10)
		for i := range 5 {
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, i+10, out)
			require.False(t, run.Existed())
		}
		s := b.Settle(t)
		require.Greater(t, s.Keys(), 5, "each run has keys of its own")
	})
}
