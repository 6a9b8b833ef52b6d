package graphtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A node that waits for its next attempt has the category of the last failure with its reason.
func TestCategoryWhileRetryIsPending(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("add", func(context.Context, int) (int, error) {
			return 0, activity.Category(errors.New("no room"), "quota")
		}, activity.Retry(activity.RetryPolicy{First: time.Hour, Attempts: 2, Factor: 1}))
		b.Worker(t, []activity.Handler{a})
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 1), 1)
		require.NoError(t, err)
		var n fabrictype.Node
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if n = d.Nodes[0]; n.DueAt.IsZero() {
				return "the retry of a node that is " + string(n.State)
			}
			return ""
		})
		require.Equal(t, "no room", n.Reason)
		require.Equal(t, "quota", n.Category)
		require.NoError(t, run.Cancel(ctx, "enough"))
		b.Settle(t)
	})
}

// Attempts that were followed by others keep the category of their failure, whatever text that is.
func TestCategoriesOfAttempts(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		names := []string{"quota", "rate limit: 5 %\tün", ""}
		a := activity.New("add", func(ctx context.Context, n int) (int, error) {
			if info, _ := activity.Info(ctx); info.Attempt <= len(names) {
				return 0, activity.Category(errors.New("no room"), names[info.Attempt-1])
			}
			return n, nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 4, Factor: 1}))
		b.KeepingWorker(t, []activity.Handler{a}, runtime.WorkerConfig{})
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 1), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		d, err := run.Describe(ctx, runtime.DescribeOptions{Attempts: true})
		require.NoError(t, err)
		var got []string
		for _, attempt := range d.Nodes[0].History {
			got = append(got, attempt.Category)
		}
		require.Equal(t, []string{"quota", `rate limit: 5 %\tün`, activityspec.CategoryError, ""}, got)
		events := make(map[fabrictype.EventKind][]string)
		for e, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
			events[e.Kind] = append(events[e.Kind], e.Category)
		}
		require.Equal(t, got[:3], events[fabrictype.EventRetry])
		require.Equal(t, []string{""}, events[fabrictype.EventSucceeded])
	})
}

// A node whose run exceeded its own deadline has the category that is documented for it, and its run has the reason of
// its end.
func TestCategoryOfAnExpiredSubFlow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		waits := activity.New("add", func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		inner := fixture.ChainOf(t, waits, 2, flow.Deadline(50*time.Millisecond))
		f := flow.New[int, int]("outer")
		flow.Return(f, flow.Sub(f, "inner", inner, f.Input(), activity.Retry(activity.RetryPolicy{Attempts: 1})))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, []activity.Handler{waits})
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.Equal(t, engine.CategoryChild, fixture.Failure(t, err).Category)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, engine.CategoryChild, d.Nodes[0].Category)

		d, err = b.Client.Run(d.Nodes[0].Child.Flow, d.Nodes[0].Child.Run).Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunExpired, d.State)
		require.Empty(t, d.FailedNode)
		require.Equal(t, activityspec.CategoryTimeout, d.Category)
		for _, n := range d.Nodes {
			require.Equal(t, "the run exceeded its deadline", n.Reason, n.Name)
			require.Equal(t, activityspec.CategoryTimeout, n.Category, n.Name)
		}
		b.Settle(t)
	})
}
