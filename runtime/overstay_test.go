package runtime_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A function that ignores the end of its context is told of, counted, and makes a worker unready that has no other slot; all of
// that ends when it returns.
func TestFunctionIgnoresTheEndOfItsContext(t *testing.T) {
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		release := make(chan struct{})
		var begun atomic.Int64
		deaf := activity.New("deaf", func(_ context.Context, n int) (int, error) {
			if begun.Add(1) <= 2 {
				<-release
			}
			return n, nil
		}, activity.Retry(activity.NoRetry))
		timed := activity.New("timed", func(_ context.Context, n int) (int, error) {
			if begun.Add(1) <= 2 {
				<-release
			}
			return n, nil
		}, activity.Retry(activity.NoRetry), activity.StartToClose(50*time.Millisecond))
		worker := runtime.NewWorker(b.Engine, runtime.Concurrency(2), runtime.Lease(runtime.MinLease))
		require.NoError(t, worker.Register(deaf, timed, addOne()))
		b.Keeper(t)
		started(t, worker.Run)
		cancelled, err := runtime.Start(ctx, b.Client, chainOf(t, deaf, 1), 1)
		require.NoError(t, err)
		expired, err := runtime.Start(ctx, b.Client, single(t, timed), 1)
		require.NoError(t, err)
		enginetest.Eventually(t, enginetest.Patience, func() string {
			if begun.Load() < 2 {
				return "both functions"
			}
			return ""
		})
		require.NoError(t, cancelled.Cancel(ctx, "enough"))
		enginetest.Eventually(t, enginetest.Patience, func() string {
			if worker.Stats().Overstaying < 2 {
				return "both functions to be noticed"
			}
			return ""
		})
		require.ErrorIs(t, worker.Check(ctx), runtime.ErrNotReady)
		require.ErrorContains(t, worker.Check(ctx), "hold all of its 2 slots")
		_, err = expired.Result(ctx)
		require.Error(t, err, "its attempt has ended")

		close(release)
		enginetest.Eventually(t, enginetest.Patience, func() string {
			if worker.Stats().Overstaying > 0 {
				return "both functions to have returned"
			}
			return ""
		})
		eventuallyReady(t, worker.Check)
		require.EqualValues(t, 2, worker.Stats().Overstays)
		run, err := runtime.Start(ctx, b.Client, chainOf(t, addOne(), 2), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err, "the slots are free")
		b.Settle(t)
		require.Equal(t, 2, strings.Count(b.Log(), "event=attempt.overstays "), "once for each attempt: %s", b.Log())
		require.Equal(t, 2, strings.Count(b.Log(), "event=attempt.overstay_ended"))
	})
}

// A function that returns when its context ends is nothing to tell of, and neither is one that takes long.
func TestFunctionThatTakesLongDoesNotOverstay(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		begun := make(chan struct{}, 1)
		patient := activity.New("patient", func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		worker := runtime.NewWorker(b.Engine, runtime.Concurrency(1), runtime.Lease(runtime.MinLease))
		require.NoError(t, worker.Register(patient))
		started(t, worker.Run)
		run, err := runtime.Start(ctx, b.Client, chainOf(t, patient, 1), 1)
		require.NoError(t, err)
		<-begun
		enginetest.Eventually(t, enginetest.Patience, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if d.Nodes[0].LeaseExpiresAt.Sub(d.Nodes[0].ClaimedAt) < 3*runtime.MinLease {
				return "the lease to be renewed for two lease times"
			}
			return ""
		})
		require.NoError(t, run.Cancel(ctx, "enough"))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Zero(t, worker.Stats().Overstays)
		b.Settle(t)
	})
}
