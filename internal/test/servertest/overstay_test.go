package servertest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A function that ignores the end of its context is logged and counted, and makes a worker without another slot
// unready; all of that ends when it returns.
func TestFunctionIgnoresTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		release := make(chan struct{})
		var begun atomic.Int64
		deaf := activity.New("deaf", func(_ context.Context, n int) (int, error) {
			if begun.Add(1) <= 2 {
				<-release
			}
			return n, nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		timed := activity.New("timed", func(_ context.Context, n int) (int, error) {
			if begun.Add(1) <= 2 {
				<-release
			}
			return n, nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}), activity.StartToClose(50*time.Millisecond))
		worker := enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{Concurrency: 2, Lease: 2 * time.Second})
		require.NoError(t, worker.Register(deaf, timed, fixture.AddOne()))
		b.Keeper(t)
		fixture.Started(t, worker.Run)
		cancelled, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, deaf, 1), 1)
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, fixture.Single(t, timed), 1)
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			if begun.Load() < 2 {
				return "both functions"
			}
			return ""
		})
		require.NoError(t, cancelled.Cancel(ctx, "enough"))
		enginetest.Eventually(t, func() string {
			if worker.Stats().Overstaying < 2 {
				return "both functions to be noticed"
			}
			return ""
		})
		enginetest.Eventually(t, func() string {
			// A machine under load may have the worker say first that the engine is away.
			if err := worker.Check(ctx); err == nil || !strings.Contains(err.Error(), "hold all of its 2 slots") {
				return fmt.Sprint("the check to say so: ", err)
			}
			return ""
		})

		close(release)
		enginetest.Eventually(t, func() string {
			if worker.Stats().Overstaying > 0 {
				return "both functions to have returned"
			}
			return ""
		})
		eventuallyReady(t, worker.Check)
		require.EqualValues(t, 2, worker.Stats().Overstays)
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, fixture.AddOne(), 2), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err, "the slots are free")
		b.Settle(t)
		require.Equal(t, 2, strings.Count(b.Log(), "event=attempt.overstays "), "once for each attempt: %s", b.Log())
		require.Equal(t, 2, strings.Count(b.Log(), "event=attempt.overstay_ended"))
	})
}
