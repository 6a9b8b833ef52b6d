package viewtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A feed yields the failures of runs with their details. It yields a failure again unless the cursor after it was
// saved.
func TestFeedOfFailures(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		buy := activity.New("buy", func(_ context.Context, item string) (int, error) {
			if item == "cup" {
				return 0, &fixture.OutOfStock{Item: item, Left: 2}
			}
			return 1, nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		def, late := fixture.OneNode(t, "shop", buy), flow.New[string, int]("late", flow.Deadline(time.Millisecond))
		flow.Return(late, flow.Node(late, "wait", activity.Declare[string, int]("nobody"), late.Input()))
		lateDef, err := late.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{buy})
		b.Keeper(t)
		feed, err := b.Client.Feed(ctx, runtime.FeedFilter{}, "")
		require.NoError(t, err)
		defer feed.Close()
		cursor := feed.Cursor()
		for _, item := range []string{"plate", "cup"} {
			_, err := runtime.Start(ctx, b.Client, def, item, runtime.WithID(item))
			require.NoError(t, err)
		}
		_, err = runtime.Start(ctx, b.Client, lateDef, "x", runtime.WithID("x"))
		require.NoError(t, err)
		for range 2 { // the second time from the cursor that was saved before
			seen := make(map[string]*runtime.RunError)
			for failure, err := range feed.Failures(ctx) {
				require.NoError(t, err)
				seen[failure.Run] = failure
				if len(seen) == 2 {
					break
				}
			}
			require.Contains(t, seen, "x")
			require.Equal(t, fabrictype.OutcomeExpired, seen["x"].Outcome)
			var stock *fixture.OutOfStock
			require.True(t, errors.As(seen["cup"], &stock))
			require.Equal(t, 2, stock.Left)
			feed.Close()
			feed, err = b.Client.Feed(ctx, runtime.FeedFilter{}, cursor)
			require.NoError(t, err)
		}
		require.NoError(t, b.Client.Run("shop", "cup").Purge(ctx))
		for failure, err := range feed.Failures(ctx) {
			require.NoError(t, err)
			if failure.Run == "cup" {
				require.Equal(t, "node", failure.Node)
				require.Empty(t, failure.Failures)
				break
			}
		}
	})
}
