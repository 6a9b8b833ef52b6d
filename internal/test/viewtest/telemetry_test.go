package viewtest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			reader := metric.NewManualReader()
			meters := metric.NewMeterProvider(metric.WithReader(reader))
			b := enginetest.New(t, kind, runtime.OpenConfig{MeterProvider: meters})
			ctx := enginetest.Context(t)
			flaky := activity.New("flaky", func(ctx context.Context, n int) (int, error) {
				if info, _ := activity.Info(ctx); info.Attempt == 1 {
					return 0, errors.New("not yet")
				}
				return n, nil
			})
			broken := activity.New("broken", func(context.Context, int) (int, error) {
				return 0, activity.NonRetryable(errors.New("never"))
			})
			f := flow.New[int, int]("measured")
			flow.Return(f, flow.Node(f, "second", broken, flow.Node(f, "first", flaky, f.Input())))
			def, err := f.Build()
			require.NoError(t, err)

			waiting, err := runtime.Start(ctx, b.Client, def, 1)
			require.NoError(t, err)
			b.Keeper(t)
			var before fixture.Collected
			enginetest.Eventually(t, func() string {
				before = fixture.Collect(t, reader)
				if before["flowfabric.lane.depth{default,eligible}"] == 0 {
					return "the waiting node in the depth of its lane"
				}
				return ""
			})
			require.EqualValues(t, 1, before["flowfabric.lane.depth{default,blocked_by_dependencies}"])

			b.Worker(t, []activity.Handler{flaky, broken})
			b.Worker(t, []activity.Handler{flaky, broken}, runtime.WorkerConfig{Concurrency: 2}) // of the same name
			_, err = waiting.Result(ctx)
			require.Error(t, err)
			after := fixture.Collect(t, reader)
			require.EqualValues(t, 1, after["flowfabric.start.duration{measured,started}"])
			require.EqualValues(t, 1, after["flowfabric.attempt.duration{flaky,retried}"])
			require.EqualValues(t, 1, after["flowfabric.attempt.duration{flaky,succeeded}"])
			require.EqualValues(t, 1, after["flowfabric.commit.duration{flaky,succeeded}"])
			require.EqualValues(t, 3, after["flowfabric.worker.executions{worker}"])
			require.EqualValues(t, 16+2, after["flowfabric.worker.slot.limit{worker}"])
			require.Contains(t, after, "flowfabric.worker.slot.usage{worker}")
			require.Contains(t, after, "flowfabric.worker.overstays{worker}")
			require.Contains(t, after, "flowfabric.worker.slot.overstaying{worker}")
			require.Positive(t, after["flowfabric.worker.claims{found,worker}"])
			require.Positive(t, after["flowfabric.claim.duration{default,found}"])
			require.Zero(t, after["flowfabric.lane.depth{default,eligible}"])
			require.Positive(t, after["flowfabric.keeper.partitions{}"])
			// A keeper's work is measured when its reply arrives, which may be after the run's end is known.
			enginetest.Eventually(t, func() string {
				if after = fixture.Collect(t, reader); after["flowfabric.keeper.items{delayed_promotion}"] == 0 {
					return "the retry among the items of the keeper"
				}
				return ""
			})
			// So is the failure.
			enginetest.Eventually(t, func() string {
				if fixture.Collect(t, reader)["flowfabric.attempt.duration{broken,failed}"] != 1 {
					return "the failed attempt"
				}
				return ""
			})
			b.Settle(t)
		})
	}
}
