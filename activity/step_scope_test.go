package activity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
)

// fetch is a helper that is a step itself, and is used within steps and outside of them.
func fetch(ctx context.Context, what string) (string, error) {
	return activity.Step(ctx, "fetch", func(context.Context) (string, error) { return what, nil })
}

// Steps within steps are counted within them, so that later steps of the name keep their places when the outer step is
// not run again.
func TestStepInStep(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	trip := func(ctx context.Context) (string, error) {
		var all []string
		for _, what := range []string{"prices", "rates"} {
			got, err := activity.Step(ctx, "outer", func(ctx context.Context) (string, error) {
				a, err := fetch(ctx, what)
				if err != nil {
					return "", err
				}
				b, err := fetch(ctx, "more "+what)
				return a + ", " + b, err
			})
			if err != nil {
				return "", err
			}
			all = append(all, got)
		}
		got, err := fetch(ctx, "customers")
		if err != nil {
			return "", err
		}
		_, err = activity.Await[int](ctx, "go")
		return strings.Join(append(all, got), ", "), err
	}
	env := activitytest.New()
	_, err := trip(env.Context(ctx))
	step, waits := activitytest.Suspended(err)
	require.True(t, waits, "%v", err)
	require.Equal(t, "go", step)
	env.Signal("go", "go", 1)
	got, err := trip(env.Context(ctx))
	require.NoError(t, err)
	require.Equal(t, "prices, more prices, rates, more rates, customers", got)
}

// Steps that the next run of the function could not distinguish are refused.
func TestAmbiguousStepsAreRefused(t *testing.T) {
	t.Parallel()
	within := func(inner func(outer, ctx context.Context) error) error {
		ctx := activitytest.New().Context(context.Background())
		_, err := activity.Step(ctx, "outer", func(within context.Context) (int, error) { return 0, inner(ctx, within) })
		return err
	}
	refused := map[string]error{
		"a step with the outer context": within(func(outer, _ context.Context) error {
			_, err := fetch(outer, "x")
			return err
		}),
		"a wait": within(func(_, ctx context.Context) error {
			_, err := activity.Await[int](ctx, "wait")
			return err
		}),
		"a wait with the outer context": within(func(outer, _ context.Context) error {
			_, err := activity.AwaitSignals[int](outer, "wait")
			return err
		}),
		"a sleep":                        within(func(_, ctx context.Context) error { return activity.Sleep(ctx, "nap", 1) }),
		"a sleep with the outer context": within(func(outer, _ context.Context) error { return activity.Sleep(outer, "nap", 1) }),
		"a started step with the outer context": within(func(outer, ctx context.Context) error {
			_, err := activity.Go(outer, "go", func(context.Context) (int, error) { return 0, nil }).Result(ctx)
			return err
		}),
		"a wait within a started step": within(func(_, ctx context.Context) error {
			_, err := activity.Go(ctx, "go", func(ctx context.Context) (int, error) { return activity.Await[int](ctx, "wait") }).Result(ctx)
			return err
		}),
	}
	for what, err := range refused {
		require.ErrorIs(t, err, activity.ErrInvalid, what)
		require.True(t, activitytest.IsNonRetryable(err), what)
	}
	require.NoError(t, within(func(_, ctx context.Context) error {
		_, err := activity.OpenWaitpoint(ctx, "later", 0)
		return err
	}))
	long := strings.Repeat("n", 128)
	err := within(func(_, ctx context.Context) error {
		_, err := activity.Step(ctx, long, func(ctx context.Context) (int, error) {
			return activity.Step(ctx, long, func(context.Context) (int, error) { return 0, nil })
		})
		return err
	})
	require.ErrorContains(t, err, "at most 256 are allowed")
}

// Two calls of one name at once have no order.
func TestNameInUse(t *testing.T) {
	t.Parallel()
	ctx := activitytest.New().Context(context.Background())
	begun, end := make(chan struct{}), make(chan struct{})
	first := make(chan error)
	go func() {
		_, err := activity.Step(ctx, "fetch", func(context.Context) (int, error) {
			close(begun)
			<-end
			return 1, nil
		})
		first <- err
	}()
	<-begun
	_, err := fetch(ctx, "second")
	require.ErrorIs(t, err, activity.ErrInvalid)
	_, err = activity.Go(ctx, "fetch", func(context.Context) (int, error) { return 0, nil }).Result(ctx)
	require.ErrorIs(t, err, activity.ErrInvalid)
	other, err := activity.Step(ctx, "other", func(context.Context) (int, error) { return 2, nil })
	require.NoError(t, err)
	require.Equal(t, 2, other)
	close(end)
	require.NoError(t, <-first)
	_, err = fetch(ctx, "second")
	require.NoError(t, err, "one after the other they have an order")

	_, err = activity.Await[int](ctx, "wait")
	_, waits := activitytest.Suspended(err)
	require.True(t, waits)
	_, err = activity.Await[int](ctx, "wait")
	require.ErrorIs(t, err, activity.ErrInvalid)
}

// Steps that run at once keep their order, whatever order they end in, and have inner steps.
func TestGo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const n = 20
	calls := make(chan string, 10*n)
	errAgain := errors.New("again")
	all := func(ctx context.Context, fails bool) ([]string, error) {
		var pages []*activity.Future[string]
		ended := make([]chan struct{}, n+1)
		for i := range ended {
			ended[i] = make(chan struct{})
		}
		close(ended[n])
		for i := range n {
			pages = append(pages, activity.Go(ctx, "page", func(ctx context.Context) (string, error) {
				defer close(ended[i])
				got, err := fetch(ctx, fmt.Sprint(i))
				if !fails {
					return got, err
				}
				<-ended[i+1] // the last one ends first
				calls <- got
				if i%2 == 1 {
					return "", errAgain
				}
				return got, err
			}))
		}
		var list []string
		var faults []error
		for _, page := range pages {
			got, err := page.Result(ctx)
			list, faults = append(list, got), append(faults, err)
		}
		return list, errors.Join(faults...)
	}
	env := activitytest.New()
	_, err := all(env.Context(ctx), true)
	require.ErrorIs(t, err, errAgain)
	require.Len(t, calls, n)
	got, err := all(env.Context(ctx), false)
	require.NoError(t, err)
	for i, text := range got {
		require.Equal(t, fmt.Sprint(i), text)
	}
}

// A step that panics in its goroutine panics where its result is read; one that ends its goroutine fails.
func TestGoThatPanics(t *testing.T) {
	t.Parallel()
	ctx := activitytest.New().Context(context.Background())
	bad := activity.Go(ctx, "bad", func(context.Context) (int, error) { panic("no") })
	require.Panics(t, func() { _, _ = bad.Result(ctx) })
	ended, cancel := context.WithCancelCause(context.Background())
	stuck := activity.Go(ended, "stuck", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
	errStop := errors.New("stop")
	cancel(errStop)
	_, err := stuck.Result(ended)
	require.Error(t, err)
	outside, err := activity.Go(context.Background(), "outside", func(context.Context) (int, error) { return 3, nil }).Result(context.Background())
	require.NoError(t, err)
	require.Equal(t, 3, outside)
}

// A step without a function is an error that names the step, not a panic.
func TestStepWithoutFunction(t *testing.T) {
	_, err := activity.Step[int](context.Background(), "s", nil)
	require.EqualError(t, err, `step "s": the function is nil`)
}
