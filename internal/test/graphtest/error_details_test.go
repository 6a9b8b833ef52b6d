package graphtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// shopClosed is one whose type is not a pointer.
type shopClosed struct{ Until string }

func (shopClosed) ErrorName() string { return "shop.closed" }
func (e shopClosed) Error() string   { return "closed until " + e.Until }

// tooLong is one whose value is not stored.
type tooLong struct{ Text string }

func (*tooLong) ErrorName() string { return "shop.too_long" }
func (*tooLong) Error() string     { return "too long" }

// The caller of a run finds the errors by which a node failed by their types and names, also through a sub-flow and a
// rerun, and in the failures of each node.
func TestErrorDetails(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var healed atomic.Bool
		buy := activity.New("buy", func(_ context.Context, what string) (int, error) {
			switch what {
			case "details":
				if healed.Load() {
					return 1, nil
				}
				return 0, fmt.Errorf("buying: %w", errors.Join(&fixture.OutOfStock{Item: "cup", Left: 3}, shopClosed{"noon"}, fixture.ErrNoCreditThere))
			case "long":
				return 0, &tooLong{strings.Repeat("x", 20<<10)}
			case "own":
				return 0, fmt.Errorf("%w: %w: %w", runtime.ErrTooLarge, enginecore.ErrUnavailable,
					&enginecore.Error{Function: "f", Code: enginecore.ErrFlowNotFound})
			}
			return 0, errors.New("plain")
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		def := fixture.OneNode(t, "shop", buy)
		b.Worker(t, []activity.Handler{buy})
		b.Keeper(t)
		failed := func(def *flow.Definition[string, int], what string) (*runtime.Run[int], *runtime.RunError) {
			run, err := runtime.Start(ctx, b.Client, def, what)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			var failure *runtime.RunError
			require.ErrorAs(t, err, &failure)
			return run, failure
		}
		check := func(err error) {
			var stock *fixture.OutOfStock
			require.ErrorAs(t, err, &stock)
			require.Equal(t, fixture.OutOfStock{Item: "cup", Left: 3}, *stock)
			var closed shopClosed
			require.ErrorAs(t, err, &closed)
			require.Equal(t, "noon", closed.Until)
			require.ErrorIs(t, err, fixture.ErrNoCreditHere)
			require.NotErrorIs(t, err, fixture.ErrNoSuchThing)
			var path *fs.PathError
			require.False(t, errors.As(err, &path))
		}
		run, failure := failed(def, "details")
		check(failure)
		check(&failure.Failures[0])
		var node *runtime.NodeFailure
		require.ErrorAs(t, failure, &node)
		require.Equal(t, "node node: failed: "+failure.Reason, node.Error())
		require.ErrorIs(t, failure, runtime.ErrRunFailed)

		_, failure = failed(def, "long")
		require.Equal(t, "shop.too_long", failure.Failures[0].Details[0].Name)
		require.Greater(t, failure.Failures[0].Details[0].OmittedBytes, 20<<10)
		var long *tooLong
		require.False(t, errors.As(failure, &long))

		_, failure = failed(def, "own")
		require.ErrorIs(t, failure, runtime.ErrTooLarge)
		require.ErrorIs(t, &failure.Failures[0], enginecore.ErrUnavailable)
		require.NotErrorIs(t, failure, enginecore.ErrUnavailable)
		require.ErrorIs(t, &failure.Failures[0], enginecore.ErrFlowNotFound)

		_, failure = failed(def, "plain")
		require.Empty(t, failure.Failures[0].Details)
		require.NotErrorIs(t, failure, fixture.ErrNoCreditHere)
		if b.Contract() {
			return
		}
		outer := flow.New[string, int]("outer")
		flow.Return(outer, flow.Sub(outer, "shop", def, outer.Input(), activity.Retry(activity.RetryPolicy{Attempts: 1})))
		outerDef, err := outer.Build()
		require.NoError(t, err)
		_, failure = failed(outerDef, "details")
		check(failure)

		healed.Store(true)
		err = run.Rerun(ctx, fabrictype.RerunFailed)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, out)
		b.Settle(t)
	})
}

// A node that undoes reads the failure for which it runs by types and names, and so does who gets the outcomes of a
// map.
func TestFailuresAsInputsKeepTheirDetails(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		buy := activity.New("buy", func(_ context.Context, what string) (int, error) {
			switch what {
			case "plate":
				return 1, nil
			case "late":
				return 0, fmt.Errorf("buying: %w: %w", runtime.ErrTooLarge, context.DeadlineExceeded)
			}
			return 0, fmt.Errorf("buying: %w", errors.Join(&fixture.OutOfStock{Item: what, Left: 3}, shopClosed{"noon"}, fixture.ErrNoCreditThere))
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		check := func(err error) {
			var stock *fixture.OutOfStock
			require.ErrorAs(t, err, &stock)
			require.Equal(t, fixture.OutOfStock{Item: "cup", Left: 3}, *stock)
			var closed shopClosed
			require.ErrorAs(t, err, &closed)
			require.Equal(t, "noon", closed.Until)
			require.ErrorIs(t, err, fixture.ErrNoCreditHere)
			require.NotErrorIs(t, err, fixture.ErrNoSuchThing)
		}
		undo, seen := undoing()
		f := flow.New[string, string]("undone")
		bought := flow.Node(f, "buy", buy, f.Input())
		flow.Return(f, flow.Node(f, "undo", undo, flow.FailureOf(bought), flow.Always(bought)))
		undone, err := f.Build()
		require.NoError(t, err)
		m := flow.New[[]string, []flow.ItemOutcome[int]]("list")
		flow.Return(m, flow.MapOutcomes(m, "buy", buy, m.Input()))
		list, err := m.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{buy, undo})
		b.Keeper(t)
		for _, what := range []string{"cup", "late", "plate"} {
			run, err := runtime.Start(ctx, b.Client, undone, what)
			require.NoError(t, err)
			_, _ = run.Result(ctx)
			switch failure := <-seen; what {
			case "cup":
				check(failure.Err())
				require.EqualError(t, failure.Err(), "node buy: failed: "+failure.Reason)
			case "late":
				require.ErrorIs(t, failure.Err(), runtime.ErrTooLarge)
				require.ErrorIs(t, failure.Err(), context.DeadlineExceeded)
			default:
				require.NoError(t, failure.Err())
			}
		}
		run, err := runtime.Start(ctx, b.Client, list, []string{"plate", "cup"})
		require.NoError(t, err)
		outcomes, err := run.Result(ctx)
		require.NoError(t, err)
		require.NoError(t, outcomes[0].Err())
		check(outcomes[1].Err())
		require.EqualError(t, outcomes[1].Err(), "item: failed: "+outcomes[1].Reason)
		b.Settle(t)
	})
}

// A category that is not to be retried, and the end of the time for retries, end a node.
func TestRetryRules(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		attempts := make(map[string]*atomic.Int32)
		node := func(name string, policy activity.RetryPolicy) *activity.Activity[string, int] {
			counter := new(atomic.Int32)
			attempts[name] = counter
			if policy.Attempts == 0 {
				policy.First, policy.Attempts, policy.Factor = time.Millisecond, 4, 1
			}
			return activity.New(name, func(_ context.Context, category string) (int, error) {
				counter.Add(1)
				return 0, activity.Category(errors.New("no"), category)
			}, activity.Retry(policy))
		}
		only := node("only", activity.RetryPolicy{Only: []string{"quota"}})
		except := node("except", activity.RetryPolicy{Except: []string{"quota", "timeout"}})
		within := node("within", activity.RetryPolicy{First: time.Minute, Attempts: 9, Factor: 1, Within: time.Second})
		long := node("long", activity.RetryPolicy{Within: time.Hour})
		b.Worker(t, []activity.Handler{only, except, within, long})
		b.Keeper(t)
		for _, c := range []struct {
			activity *activity.Activity[string, int]
			category string
			want     int32
		}{
			{only, "quota", 4}, {only, "other", 1}, {except, "quota", 1}, {except, "other", 4}, {within, "any", 1}, {long, "any", 4},
		} {
			attempts[c.activity.Name()].Store(0)
			run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "rules-"+c.activity.Name(), c.activity), c.category)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.ErrorIs(t, err, runtime.ErrRunFailed)
			require.Equal(t, c.want, attempts[c.activity.Name()].Load(), "%s of %s", c.category, c.activity.Name())
		}
	})
}

// Contradictory rules of retries are faults of the declaration. The rules of a node replace the rules of its activity.
func TestRetryRulesAreChecked(t *testing.T) {
	t.Parallel()
	fn := func(context.Context, int) (int, error) { return 0, nil }
	for text, policy := range map[string]activity.RetryPolicy{
		"categories that are retried (Only) or categories that are not (Except)": {Only: []string{"a"}, Except: []string{"b"}},
		"category 2 is empty":                   {Except: []string{"a", ""}},
		"must be one line of at most 128":       {Except: []string{"a\nb"}},
		"retry: time -1s must be 0 to 10 years": {Within: -time.Second},
	} {
		require.ErrorContains(t, activity.New("a", fn, activity.Retry(policy)).Err(), text)
	}
	a := activity.New("a", fn, activity.Retry(activity.RetryPolicy{Only: []string{"x"}}))
	f := flow.New[int, int]("f")
	flow.Return(f, flow.Node(f, "n", a, f.Input(), activity.Retry(activity.RetryPolicy{Except: []string{"y"}})))
	_, err := f.Build()
	require.NoError(t, err)
}

// A node that only restricts its retries keeps the attempts of its activity: one that must not run twice does not.
func TestRetryRulesOfANodeKeepTheAttemptsOfItsActivity(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("once", func(context.Context, int) (int, error) { return 0, errors.New("on purpose") },
			activity.Retry(activity.RetryPolicy{Attempts: 1}))
		b.Worker(t, []activity.Handler{a})
		for name, policy := range map[string]activity.RetryPolicy{
			"within": {Within: time.Hour}, "only": {Only: []string{activityspec.CategoryError}}, "except": {Except: []string{"x"}},
		} {
			run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a, activity.Retry(policy)), 1)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			fixture.Failure(t, err)
			require.Equal(t, 1, fixture.Attempts(t, ctx, run), name)
		}
	})
}
