package viewtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// times notes when a function was called.
type times struct {
	mu   sync.Mutex
	list []time.Time
}

func (c *times) note() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, time.Now())
	return len(c.list)
}

func (c *times) all() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Time(nil), c.list...)
}

func TestRetries(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("broken")
	for _, tt := range []struct {
		name     string
		fn       func(call int) error
		policy   activity.RetryPolicy
		attempts int
		category string // of the failure, "" when the run succeeds
		gaps     []time.Duration
	}{
		{
			"succeeds in the end", func(n int) error {
				if n < 3 {
					return errBroken
				}
				return nil
			},
			activity.RetryPolicy{First: 20 * time.Millisecond, Factor: 3, JitterPermille: -1, Attempts: 5}, 3, "",
			[]time.Duration{20 * time.Millisecond, 60 * time.Millisecond},
		},
		{
			"gives up", func(int) error { return activity.Category(errBroken, "odd") },
			activity.RetryPolicy{First: 5 * time.Millisecond, Attempts: 3, Factor: 1}, 3, "odd",
			[]time.Duration{5 * time.Millisecond, 5 * time.Millisecond},
		},
		{"not retryable", func(int) error { return activity.NonRetryable(errBroken) }, activity.RetryPolicy{Attempts: 5}, 1, activityspec.CategoryError, nil},
		{"no retry", func(int) error { return errBroken }, activity.RetryPolicy{Attempts: 1}, 1, activityspec.CategoryError, nil},
		{
			"panic", func(int) error { panic("boo") }, activity.RetryPolicy{First: time.Millisecond, Attempts: 2, Factor: 1}, 2, activityspec.CategoryPanic,
			[]time.Duration{time.Millisecond},
		},
		{
			"retry after", func(n int) error {
				if n == 1 {
					return activity.RetryAfter(errBroken, 40*time.Millisecond)
				}
				return nil
			},
			activity.RetryPolicy{First: time.Hour, Attempts: 2, Factor: 1}, 2, "", []time.Duration{40 * time.Millisecond},
		},
		{
			"retry at once", func(n int) error {
				if n == 1 {
					return activity.RetryAfter(errBroken, 0)
				}
				return nil
			},
			activity.RetryPolicy{First: time.Hour, Attempts: 2, Factor: 1}, 2, "", []time.Duration{0},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				ctx := enginetest.Context(t)
				var calls times
				a := activity.New("work", func(_ context.Context, in int) (int, error) { return in, tt.fn(calls.note()) }, activity.Retry(tt.policy))
				b.Worker(t, []activity.Handler{a})
				b.Keeper(t)
				run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), 7)
				require.NoError(t, err)
				out, err := run.Result(ctx)
				if tt.category == "" {
					require.NoError(t, err)
					require.Equal(t, 7, out)
				} else {
					require.ErrorIs(t, err, runtime.ErrRunFailed)
					require.Equal(t, tt.category, fixture.Failure(t, err).Category)
				}
				require.Equal(t, tt.attempts, fixture.Attempts(t, ctx, run))
				list := calls.all()
				require.Len(t, list, tt.attempts)
				for i, gap := range tt.gaps {
					require.GreaterOrEqual(t, list[i+1].Sub(list[i]), gap-time.Millisecond)
				}
				b.Settle(t)
			})
		})
	}
}

func TestStartToClose(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var calls times
		causes := make(chan error, 8)
		a := activity.New("slow", func(ctx context.Context, _ int) (int, error) {
			if calls.note() == 1 {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return 0, ctx.Err()
			}
			return 1, nil
		}, activity.StartToClose(time.Second), activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: fixture.SparedAttempts, Factor: 1}))
		b.Worker(t, []activity.Handler{a})
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), 0)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err, "a later call is in time")
		require.ErrorIs(t, <-causes, runtime.ErrStartToClose)
		require.GreaterOrEqual(t, fixture.Attempts(t, ctx, run), 2)
		s := b.Settle(t)
		require.NotZero(t, s.Keys())
	})
}

// The engine times out a function that ignores its context.
func TestStartToClose_FunctionIgnoresItsContext(t *testing.T) {
	t.Parallel() // most of it is waiting
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var calls times
		gate := make(chan struct{})
		a := activity.New("deaf", func(_ context.Context, _ int) (int, error) {
			if n := calls.note(); n == 1 {
				<-gate
			}
			return 5, nil
		}, activity.StartToClose(time.Second), activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: fixture.SparedAttempts, Factor: 1}))
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Lease: 10 * time.Second}) // in contract mode, its end ends the attempt
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), 0)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		close(gate)
		require.NoError(t, err)
		require.Equal(t, 5, out)
		require.GreaterOrEqual(t, fixture.Attempts(t, ctx, run), 2)
		b.Settle(t)
	})
}

func TestHeartbeatTimeout(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var calls times
		a := activity.New("beats", func(ctx context.Context, _ int) (int, error) {
			if calls.note() == 1 {
				<-ctx.Done()
				return 0, context.Cause(ctx)
			}
			for range 60 {
				time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the work between two heartbeats
				if err := activity.Heartbeat(ctx); err != nil {
					return 0, err
				}
			}
			return 9, nil
		}, activity.HeartbeatTimeout(500*time.Millisecond), activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: fixture.SparedAttempts, Factor: 1}))
		b.Worker(t, []activity.Handler{a})
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), 0)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 9, out)
		require.GreaterOrEqual(t, fixture.Attempts(t, ctx, run), 2)

		silent := activity.New("silent", func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, activity.HeartbeatTimeout(20*time.Millisecond), activity.Retry(activity.RetryPolicy{Attempts: 1}))
		b.Worker(t, []activity.Handler{silent, a})
		last, err := runtime.Start(ctx, b.Client, fixture.Single(t, silent), 0)
		require.NoError(t, err)
		_, err = last.Result(ctx)
		require.Equal(t, activityspec.CategoryTimeout, fixture.Failure(t, err).Category)
		b.Settle(t)
	})
}

func TestScheduleToStart(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("late", func(_ context.Context, n int) (int, error) { return n, nil }, activity.ScheduleToStart(50*time.Millisecond))
		b.Keeper(t)
		f := flow.New[int, int]("late")
		first := flow.Node(f, "first", a, f.Input())
		flow.Return(f, flow.Node(f, "second", a, first))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 0)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.Equal(t, "first", fixture.Failure(t, err).Node)
		require.Equal(t, activityspec.CategoryTimeout, fixture.Failure(t, err).Category)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeSkipped, d.Nodes[1].State)
		require.Zero(t, d.Nodes[0].Attempts)

		fixture := fixture.Single(t, a, activity.ScheduleToStart(time.Minute))
		b.Worker(t, []activity.Handler{a})
		run, err = runtime.Start(ctx, b.Client, fixture, 3)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, out)
		b.Settle(t)
	})
}

func TestFlowDeadline(t *testing.T) {
	t.Parallel() // most of it is waiting
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		causes := make(chan error, 1)
		a := activity.New("endless", func(ctx context.Context, n int) (int, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return n, ctx.Err()
		})
		b.Keeper(t)
		var off time.Duration
		if b.Contract() {
			off = time.Minute // the client knows the engine's clock as exactly as the machine lets it answer
		}
		// A busy machine may not have begun by then: the next run has twice the time.
		for deadline := 500 * time.Millisecond; ; deadline *= 2 {
			f := flow.New[int, int]("endless", flow.Deadline(deadline))
			first := flow.Node(f, "first", a, f.Input())
			flow.Return(f, flow.Node(f, "second", a, first))
			def, err := f.Build()
			require.NoError(t, err)
			w := b.Worker(t, []activity.Handler{a})
			begun := time.Now().Truncate(time.Millisecond)
			run, err := runtime.Start(ctx, b.Client, def, 0)
			require.NoError(t, err)
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			require.WithinRange(t, d.DeadlineAt, begun.Add(deadline-off), time.Now().Add(deadline+off))
			_, err = run.Result(ctx)
			require.ErrorIs(t, err, runtime.ErrRunExpired)
			require.GreaterOrEqual(t, time.Since(begun), deadline-off)
			require.NoError(t, w.Stop())
			if len(causes) > 0 {
				break
			}
		}
		require.ErrorIs(t, <-causes, runtime.ErrDeadline)
		b.Settle(t)
	})
}
