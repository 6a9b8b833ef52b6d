package activity_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
)

// Calls that belong to one execution fail in the function of a batch activity: nothing of them is lost silently.
func TestCallsInABatchFail(t *testing.T) {
	calls := map[string]func(context.Context) error{
		"step": func(ctx context.Context) error {
			_, err := activity.Step(ctx, "x", func(context.Context) (int, error) { return 1, nil })
			return err
		},
		"sleep":   func(ctx context.Context) error { return activity.Sleep(ctx, "x", time.Hour) },
		"await":   func(ctx context.Context) error { _, err := activity.Await[int](ctx, "x"); return err },
		"open":    func(ctx context.Context) error { _, err := activity.OpenWaitpoint(ctx, "x", 0); return err },
		"publish": func(ctx context.Context) error { return activity.Publish(ctx, "x", 1) },
		"emit":    func(ctx context.Context) error { return activity.Emit(ctx, activity.Frame{Kind: "x", Payload: 1}) },
		"usage":   func(ctx context.Context) error { return activity.ReportUsage(ctx, "tokens", 1) },
		"reserve": func(ctx context.Context) error { _, err := activity.Reserve(ctx, "tokens", 1); return err },
	}
	errs := map[string]error{}
	batch := activity.NewBatch("batch", func(ctx context.Context, items []int) ([]activity.ItemResult[int], error) {
		for name, call := range calls {
			errs[name] = call(ctx)
		}
		return make([]activity.ItemResult[int], len(items)), nil
	})
	f := flow.New[int, int]("batches")
	flow.Return(f, flow.Node(f, "node", batch, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	flowtest.Run(t, func(t *flowtest.T) { flowtest.Start(t, def, 1).MustResult() })
	require.Len(t, errs, len(calls))
	for name, err := range errs {
		require.ErrorContains(t, err, "the function of a batch activity runs for several executions", name)
		require.True(t, activitytest.IsNonRetryable(err), name)
	}
}

func TestNilOptionOfAwait(t *testing.T) {
	_, err := activity.Await[int](t.Context(), "x", nil)
	require.ErrorContains(t, err, `await "x": option is nil`)
}
