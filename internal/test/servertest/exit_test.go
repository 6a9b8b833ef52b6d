package servertest

import (
	"context"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// exitError ends the goroutine that calls Error.
type exitError struct{}

func (exitError) Error() string {
	goruntime.Goexit()
	return ""
}

// nilError has a text only when it is not nil.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// exitCodec ends the goroutine that decodes by it.
type exitCodec struct{ activity.JSON }

func (exitCodec) Name() string { return "exit" }

func (exitCodec) Decode([]byte, any) error {
	goruntime.Goexit()
	return nil
}

// A function that ends its goroutine has failed like one that panics: the worker has its slot back and continues.
func TestFunctionEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		exits := activity.New("exits", func(ctx context.Context, n int) (int, error) {
			switch info, _ := activity.Info(ctx); info.Attempt {
			case 1:
				goruntime.Goexit()
			case 2:
				if b.Contract() {
					goruntime.Goexit()
				}
				return activity.Step(ctx, "step", func(context.Context) (int, error) {
					goruntime.Goexit()
					return 0, nil
				})
			case 3:
				return 0, exitError{}
			case 4:
				var none *nilError
				return 0, none
			}
			return n + 1, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 5, Factor: 1}), activity.StartToClose(time.Minute), activity.HeartbeatTimeout(time.Minute))
		never := activity.New("never", func(context.Context, int) (int, error) {
			goruntime.Goexit()
			return 0, nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		b.Keeper(t)
		b.Worker(t, []activity.Handler{exits, never, fixture.AddOne()}, runtime.WorkerConfig{Concurrency: 1})

		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, exits, 1), 1)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, out)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, d.Nodes[0].Attempts)
		require.Zero(t, d.Nodes[0].Reclaims, "no attempt was lost")

		run, err = runtime.Start(ctx, b.Client, fixture.ChainOf(t, never, 2), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		failed := fixture.Failure(t, err)
		require.Equal(t, "the function ended its goroutine (runtime.Goexit)", failed.Reason)
		require.Equal(t, activityspec.CategoryPanic, failed.Category)

		run, err = runtime.Start(ctx, b.Client, fixture.ChainOf(t, fixture.AddOne(), 3), 1)
		require.NoError(t, err)
		out, err = run.Result(ctx)
		require.NoError(t, err, "the only slot is free")
		require.Equal(t, 4, out)
		b.Settle(t)
		require.Equal(t, 5, strings.Count(b.Log(), "event=activity.panicked"), "%s", b.Log())
	})
}

// A codec is the program's own as well.
func TestCodecEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("coded", func(_ context.Context, n int) (int, error) { return n, nil },
			activity.WithCodec(exitCodec{}), activity.Retry(activity.RetryPolicy{Attempts: 1}))
		b.Worker(t, []activity.Handler{a, fixture.AddOne()}, runtime.WorkerConfig{Concurrency: 1})
		f := flow.New[int, int]("coded", flow.WithCodec(exitCodec{}))
		flow.Return(f, flow.Node(f, "n0", a, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.Equal(t, activityspec.CategoryPanic, fixture.Failure(t, err).Category)
		plain, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, fixture.AddOne(), 1), 1)
		require.NoError(t, err)
		_, err = plain.Result(ctx)
		require.NoError(t, err, "the only slot is free")
		b.Settle(t)
	})
}

// exitGranter ends the goroutine of the first call.
type exitGranter struct {
	inner func(context.Context, enginecore.GrantRequest) (enginecore.Grant, error)
	calls atomic.Int64
}

func (g *exitGranter) ClaimForWorker(ctx context.Context, r enginecore.GrantRequest) (enginecore.Grant, error) {
	if g.calls.Add(1) == 1 {
		goruntime.Goexit()
	}
	return g.inner(ctx, r)
}

// A granter that ends the goroutine of its caller costs the worker no slot.
func TestGranterEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{
			Concurrency: 1, ClaimThrough: (&exitGranter{inner: b.Engine.ClaimForWorker}).ClaimForWorker,
		})
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 1), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		b.Settle(t)
	})
}
