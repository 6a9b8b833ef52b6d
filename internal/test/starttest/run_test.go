package starttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestChain(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		b.Worker(t, []activity.Handler{a})
		def := fixture.ChainOf(t, a, 10)
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
