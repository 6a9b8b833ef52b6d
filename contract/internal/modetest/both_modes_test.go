package modetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A run that a program in contract mode has started is not started again by one with the whole library.
func TestRunOfContractMode_IsNotStartedAgain(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		url := enginetest.ServerWith(t, kind, lualib.Source()).URL()
		inContract := enginetest.Open(t, kind, url+enginetest.ContractQuery, enginetest.ContractPrefix)
		whole := enginetest.Open(t, kind, url, enginetest.ContractPrefix)
		def := fixture.ChainOf(t, fixture.AddOne(), 2)
		_, err := runtime.Start(ctx, inContract.Client, def, 1, runtime.WithID("one"))
		require.NoError(t, err)
		for _, opts := range [][]runtime.StartOption{
			{}, {runtime.StartAt(time.Now().Add(time.Hour))}, // in the usual case and in another one
		} {
			_, err := runtime.Start(ctx, whole.Client, def, 1, append(opts, runtime.WithID("one"))...)
			require.ErrorIs(t, err, runtime.ErrConflict)
		}
		run, err := runtime.Start(ctx, whole.Client, def, 1, runtime.WithID("two"))
		require.NoError(t, err)
		whole.Worker(t, def.Handlers())
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, result)
	})
}
