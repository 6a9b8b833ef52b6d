package servertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func eventuallyReady(t *testing.T, check func(context.Context) error) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		if err := check(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		noop := activity.New("noop", func(context.Context, int) (int, error) { return 0, nil })
		worker, keeper := enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{}), enginetest.NewKeeper(t, b.Engine, runtime.KeeperConfig{})
		require.NoError(t, worker.Register(noop))
		require.NoError(t, b.Engine.Check(t.Context()))
		require.ErrorIs(t, worker.Check(t.Context()), runtime.ErrNotReady)
		require.ErrorIs(t, keeper.Check(t.Context()), runtime.ErrNotReady)

		stopWorker, stopKeeper := fixture.Started(t, worker.Run), fixture.Started(t, keeper.Run)
		eventuallyReady(t, worker.Check)
		eventuallyReady(t, keeper.Check)

		stopWorker()
		stopKeeper()
		require.ErrorIs(t, worker.Check(t.Context()), runtime.ErrNotReady)
		require.ErrorIs(t, keeper.Check(t.Context()), runtime.ErrNotReady)
	})
}

// A worker that is cut off reports it, and reports when it is back.
func TestReadinessWithoutNetwork(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		p := proxy.Start(t, testserver.Shared(t, kind).Addr())
		b := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), enginetest.NewPrefix())
		worker := enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{Lease: 300 * time.Millisecond})
		require.NoError(t, worker.Register(activity.New("noop", func(context.Context, int) (int, error) { return 0, nil })))
		fixture.Started(t, worker.Run)
		eventuallyReady(t, worker.Check)

		p.Blackhole()
		enginetest.Eventually(t, func() string {
			if worker.Check(t.Context()) == nil {
				return "the worker takes itself for ready"
			}
			return ""
		})
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, b.Engine.Check(short), enginecore.ErrNotReachable)

		p.Restore()
		eventuallyReady(t, worker.Check)
		eventuallyReady(t, b.Engine.Check)
	})
}
