package runtime_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Executions that belong to no run reach an idle worker by messages alone: it neither sweeps nor renews for an hour.
func TestExecutionsOutsideRunsWakeWorkers(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, core := enginetest.Context(t), enginerpc.ConnOf(b.Engine)
		started := make(chan struct{}, 16)
		work := activity.New("single", func(context.Context, int) (int, error) {
			started <- struct{}{}
			return 1, nil
		})
		b.Keeper(t)
		b.Worker(t, []activity.Handler{work}, runtime.OnlyMessages(runtime.WorkerConfig{}))
		heard(ctx, t, b, "wake", 1)
		p := enginecore.Partition{Family: enginecore.FlowFamily, Index: 3}
		ran := func(what string) {
			t.Helper()
			select {
			case <-started:
			case <-ctx.Done():
				t.Fatal(what + " was not claimed")
			}
		}
		id := enginecore.NewExecutionID(p)
		create := enginerpc.CreateExecutionCall{
			ExecutionID: id, Namespace: "default", LaneID: "default", ExecutionKind: "single", CreatorIdentity: "test",
			InputPayload: []byte("1"), PartitionID: strconv.Itoa(int(p.Index)),
		}
		_, err := core.CreateExecution(ctx, create)
		require.NoError(t, err)
		ran("a created execution")
		enginetest.Eventually(t, enginetest.Patience, func() string {
			if _, err := core.ReplayExecution(ctx, enginerpc.ReplayExecutionCall{LaneID: "default", ExecutionID: id}); err != nil {
				return err.Error()
			}
			return ""
		})
		ran("a replayed execution")

		now, err := core.Now(ctx)
		require.NoError(t, err)
		create.ExecutionID, create.DelayUntil = enginecore.NewExecutionID(p), now.Add(100*time.Millisecond)
		_, err = core.CreateExecution(ctx, create)
		require.NoError(t, err)
		ran("a delayed execution")

		create.ExecutionID, create.DelayUntil = enginecore.NewExecutionID(p), now.Add(time.Hour)
		_, err = core.CreateExecution(ctx, create)
		require.NoError(t, err)
		_, err = core.PromoteDelayed(ctx, enginerpc.PromoteDelayedCall{
			LaneID: "default", ExecutionID: create.ExecutionID, Now: now.Add(2 * time.Hour),
		})
		require.NoError(t, err)
		ran("a promoted execution")
	})
}
