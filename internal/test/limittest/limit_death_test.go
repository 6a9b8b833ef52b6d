package limittest

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A node under several limits holds places only when it has all, and each limit holds for itself.
func TestSeveralLimits(t *testing.T) {
	t.Parallel() // most of it is waiting
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var both, first, second fixture.Gauge
		count := func(name string, gauges []*fixture.Gauge, opts ...activity.Option) *activity.Activity[int, int] {
			return activity.New(name, func(context.Context, int) (int, error) {
				for _, g := range gauges {
					g.Enter()
					defer g.Leave()
				}
				time.Sleep(5 * time.Millisecond) //nolint:forbidigo // the work, during which others enter
				return 0, nil
			}, opts...)
		}
		x, y := activity.Limit("x", activity.LimitConfig{AtOnce: 4}), activity.Limit("y", activity.LimitConfig{AtOnce: 2})
		ab := count("both", []*fixture.Gauge{&both, &first, &second}, x, y)
		a, c := count("first", []*fixture.Gauge{&first}, x), count("second", []*fixture.Gauge{&second}, y)
		for range 3 {
			b.Worker(t, []activity.Handler{ab, a, c})
		}
		b.Keeper(t)
		var runs []*runtime.Run[int]
		for _, handler := range []*activity.Activity[int, int]{ab, a, c} {
			runs = append(runs, fixture.StartAll(ctx, t, b.Client, fixture.Single(t, handler), 20)...)
		}
		fixture.AwaitAll(ctx, t, runs)
		require.LessOrEqual(t, both.Most, 2)
		require.LessOrEqual(t, first.Most, 4)
		require.LessOrEqual(t, second.Most, 2)
		fixture.AtRest(ctx, t, b.Client)
		b.Settle(t)
	})
}

// Attempts that fail, are cancelled, or lose their worker, all give their places back in the end.
func TestLimitsSurviveWorkers(t *testing.T) {
	t.Parallel() // most of it is waiting
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("shaky", func(ctx context.Context, n int) (int, error) {
			select {
			case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			if info, _ := activity.Info(ctx); info.Attempt < 3 && rand.IntN(3) == 0 {
				return 0, context.DeadlineExceeded
			}
			return n, nil
		}, activity.Limit("three", activity.LimitConfig{AtOnce: 3}), activity.Retry(activity.RetryPolicy{First: 5 * time.Millisecond, Attempts: 8, Factor: 1}))
		b.Keeper(t)
		runs := fixture.StartAll(ctx, t, b.Client, fixture.Single(t, a, activity.Priority(1)), 60)
		for range 4 {
			w := b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Grace: -1})
			time.Sleep(60 * time.Millisecond) //nolint:forbidigo // the life of a worker, which ends in the middle of its work
			require.NoError(t, w.Stop())
		}
		for _, run := range runs[:10] {
			if err := run.Cancel(ctx, "enough"); err != nil {
				require.ErrorIs(t, err, engine.ErrRunOver)
			}
		}
		b.Worker(t, []activity.Handler{a})
		for _, run := range runs[10:] {
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
		fixture.AtRest(ctx, t, b.Client)
	})
}

// A limit that an operator sets holds at once, also for those that wait already.
func TestSetLimit(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var g fixture.Gauge
		hold := make(chan struct{})
		a := activity.New("held", func(ctx context.Context, n int) (int, error) {
			g.Enter()
			defer g.Leave()
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return n, nil
		}, activity.Limit("set", activity.LimitConfig{AtOnce: 1}))
		b.Worker(t, []activity.Handler{a})
		b.Keeper(t)
		runs := fixture.StartAll(ctx, t, b.Client, fixture.Single(t, a), 6)
		running := func(want int) {
			enginetest.Eventually(t, func() string {
				g.Mu.Lock()
				defer g.Mu.Unlock()
				if g.Now != want {
					return "not as many run as may"
				}
				return ""
			})
		}
		running(1)
		require.NoError(t, b.Client.Limit("set", "").Set(ctx, activity.LimitConfig{AtOnce: 4}))
		running(4)
		q := oneQuota(ctx, t, b.Client)
		require.True(t, q.Set)
		require.Equal(t, 4, q.AtOnce)
		require.Error(t, b.Client.Limit("set", "").Set(ctx, activity.LimitConfig{AtOnce: 0}))
		close(hold)
		fixture.AwaitAll(ctx, t, runs)
		require.Equal(t, 4, g.Most)
		require.NoError(t, b.Client.Limit("set", "").Reset(ctx))
	})
}
