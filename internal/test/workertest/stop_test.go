package workertest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A worker that stops releases the executions that it cannot finish, and the attempt does not count.
func TestStopReleases(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		begun, causes, numbers := make(chan struct{}, 8), make(chan error, 8), make(chan int, 8)
		var finish atomic.Bool
		a := activity.New("long", func(ctx context.Context, n int) (int, error) {
			info, _ := activity.Info(ctx)
			numbers <- info.Attempt
			begun <- struct{}{}
			if finish.Load() {
				return n, nil
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return 0, ctx.Err()
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), 3)
		require.NoError(t, err)
		for range 3 {
			w := b.MessageWorker(t, []activity.Handler{a}, runtime.WorkerConfig{Grace: -1})
			<-begun
			require.NoError(t, w.Stop())
			require.ErrorIs(t, <-causes, runtime.ErrStopping)
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, fabrictype.NodeWaiting, d.Nodes[0].State)
			b.Check(t, invariant.AnyTime)
		}
		finish.Store(true)
		b.Worker(t, []activity.Handler{a})
		out, err := run.Result(ctx)
		require.NoError(t, err, "it need not wait for a lease to run out")
		require.Equal(t, 3, out)
		for range 4 {
			require.Equal(t, 1, <-numbers, "a released attempt continues")
		}
		require.Equal(t, 1, fixture.Attempts(t, ctx, run))
		b.Settle(t)
	})
}

// Functions that end within the grace time are committed, and nothing new is claimed.
func TestStopLetsFinish(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		begun, gate := make(chan struct{}, 8), make(chan struct{})
		a := activity.New("gated", func(_ context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-gate
			return n + 1, nil
		})
		w := b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Grace: time.Minute})
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 2), 3)
		require.NoError(t, err)
		<-begun
		stopped := make(chan error, 1)
		go func() { stopped <- w.Stop() }()
		enginetest.Eventually(t, func() string {
			select {
			case <-w.Stopping():
				return ""
			default:
				return "the stop"
			}
		})
		close(gate)
		require.NoError(t, <-stopped)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeSucceeded, d.Nodes[0].State)
		require.Equal(t, fabrictype.NodeWaiting, d.Nodes[1].State)
		require.Empty(t, begun, "nothing new starts")
		b.Worker(t, []activity.Handler{a})
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, out)
		b.Settle(t)
	})
}

// The worker stops without waiting for a function that does not return; its execution is released all the same.
func TestStop_ReleasesFunctionsThatDoNotReturn(t *testing.T) {
	t.Parallel() // most of it is waiting
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	begun, gate := make(chan struct{}, 8), make(chan struct{})
	var calls atomic.Int64
	a := activity.New("deaf", func(_ context.Context, n int) (int, error) {
		begun <- struct{}{}
		if calls.Add(1) == 1 {
			<-gate
			return -1, nil
		}
		return n, nil
	})
	running, stop := context.WithCancel(ctx)
	w := enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{Grace: -1, NoKeeper: true})
	require.NoError(t, w.Register(a))
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(running) }()
	run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), 3)
	require.NoError(t, err)
	<-begun
	stop()
	require.ErrorContains(t, <-stopped, "single/"+run.ID()+"/only")
	b.Check(t, invariant.AnyTime)
	b.Worker(t, []activity.Handler{a})
	out, err := run.Result(ctx)
	close(gate)
	require.NoError(t, err)
	require.Equal(t, 3, out)
	b.Settle(t)
}
