package childtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var errBad = errors.New("bad item")

// numbers lists 1 to n.
func numbers() *activity.Activity[int, []int] {
	return activity.New("numbers", func(_ context.Context, n int) ([]int, error) {
		list := make([]int, n)
		for i := range list {
			list[i] = i + 1
		}
		return list, nil
	})
}

func sum() *activity.Activity[[]int, int] {
	return activity.New("sum", func(_ context.Context, list []int) (int, error) {
		total := 0
		for _, n := range list {
			total += n
		}
		return total, nil
	})
}

// mapFlow lists numbers, maps them and returns the list.
func mapFlow(t testing.TB, a *activity.Activity[int, int], opts ...flow.NodeOption) *flow.Definition[int, []int] {
	f := flow.New[int, []int]("mapping")
	list := flow.Node(f, "list", numbers(), f.Input())
	flow.Return(f, flow.Map(f, "double", a, list, opts...))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func double() *activity.Activity[int, int] {
	return activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
}

func TestMapKeepsOrder(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := mapFlow(t, double())
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		for _, n := range []int{0, 1, 2, 300} {
			run, err := runtime.Start(ctx, b.Client, def, n, runtime.WithID(fmt.Sprint(n)))
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Len(t, out, n)
			for i, v := range out {
				require.Equal(t, 2*(i+1), v)
			}
		}
		b.Settle(t)
	})
}

// failing doubles, but fails for good on one number, and waits for gate with those above it.
func failing(bad int, ran *atomic.Int64) *activity.Activity[int, int] {
	return activity.New("double", func(_ context.Context, n int) (int, error) {
		ran.Add(1)
		if n == bad {
			return 0, activity.NonRetryable(activity.Category(errBad, "rotten"))
		}
		return 2 * n, nil
	})
}

// An item that fails for good fails the node with its reason and category; items that have not started are cancelled.
func TestMapFailsWithItem(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var ran atomic.Int64
		def := mapFlow(t, failing(1, &ran), flow.ItemsAtOnce(1))
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 40)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "double", failed.Node)
		require.Equal(t, "rotten", failed.Category)
		require.ErrorContains(t, err, "item-0: bad item")
		b.Settle(t)
	})
}

// A map built with MapOutcomes runs all items, and its result has the outcome of each.
func TestMapOutcomes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var ran atomic.Int64
		f := flow.New[int, []flow.ItemOutcome[int]]("outcomes")
		list := flow.Node(f, "list", numbers(), f.Input())
		flow.Return(f, flow.MapOutcomes(f, "double", failing(2, &ran), list))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 3)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []flow.ItemOutcome[int]{
			{Outcome: fabrictype.OutcomeSucceeded, Value: 2}, {Outcome: fabrictype.OutcomeFailed, Reason: "bad item", Category: "rotten"},
			{Outcome: fabrictype.OutcomeSucceeded, Value: 6},
		}, out)
		b.Settle(t)
	})
}

// Items are retried on their own, by the policy of the node.
func TestMapRetriesItem(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var ran atomic.Int64
		a := activity.New("double", func(ctx context.Context, n int) (int, error) {
			ran.Add(1)
			if info, _ := activity.Info(ctx); n == 2 && info.Attempt < 3 {
				return 0, errBad
			}
			return 2 * n, nil
		})
		def := mapFlow(t, a, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 3, Factor: 1}))
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 3)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []int{2, 4, 6}, out)
		require.EqualValues(t, 5, ran.Load())
		b.Settle(t)
	})
}

// A list that is longer than the node takes fails it before anything of it is started.
func TestMapBounds(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var ran atomic.Int64
		def := mapFlow(t, failing(0, &ran), flow.MaxMapItems(4))
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 5)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, engine.CategoryTooLarge, failed.Category)
		require.ErrorContains(t, err, "node double got 5 items, at most 4 are allowed")
		require.Zero(t, ran.Load())
		require.Len(t, b.Settle(t).FlowIDs(), 1)
	})
}
