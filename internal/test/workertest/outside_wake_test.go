package workertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func retriedSoon(c *enginerpc.CreateExecutionCall) {
	c.PolicyJSON = []byte(`{"retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":50}}}`)
}

// Executions that belong to no run reach an idle worker by messages alone: it neither sweeps nor renews for an hour.
func TestExecutionsOutsideRunsWakeWorkers(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		f := &fixture.Outsider{
			T: t, Ctx: enginetest.Context(t), Core: engine.ConnOf(b.Engine.Internal()), Started: make(chan string, 64),
			P: keyspace.Partition{Family: keyspace.FlowFamily, Index: 3},
		}
		signal, abandoned := f.Suspend(), f.Claim()
		blocked := f.Create(0)
		_, err := f.Core.BlockExecutionForAdmission(f.Ctx, enginerpc.BlockExecutionForAdmissionCall{
			LaneID: "default", ExecutionID: blocked, BlockingReason: "paused_by_operator",
		})
		require.NoError(t, err)
		up, down := f.Create(0, f.Later), f.Create(0)
		f.Link(up, down)
		b.Keeper(t)
		b.MessageWorker(t, []activity.Handler{f.Handler()})
		fixture.Subscribed(f.Ctx, t, b, "wake", 1)

		id := f.Create(0)
		f.Starts(id)
		enginetest.Eventually(t, func() string {
			if _, err := f.Core.ReplayExecution(f.Ctx, enginerpc.ReplayExecutionCall{LaneID: "default", ExecutionID: id}); err != nil {
				return err.Error()
			}
			return ""
		})
		f.Starts(id)

		f.Starts(f.Create(0, func(c *enginerpc.CreateExecutionCall) { c.DelayUntil = f.In(100 * time.Millisecond) }))
		id = f.Create(0, f.Later)
		f.Promote(id)
		f.Starts(id)

		id = f.Create(1, retriedSoon)
		f.Starts(id)
		f.Starts(id)

		_, err = f.Core.UnblockExecution(f.Ctx, enginerpc.UnblockExecutionCall{LaneID: "default", ExecutionID: blocked})
		require.NoError(t, err)
		f.Starts(blocked)

		f.Promote(up)
		f.Starts(up)
		f.Starts(down)

		_, err = f.Core.DeliverSignal(f.Ctx, enginerpc.DeliverSignalCall{LaneID: "default", Signal: signal})
		require.NoError(t, err)
		f.Starts(signal.ExecutionID)

		_, err = f.Core.RevokeLease(f.Ctx, enginerpc.RevokeLeaseCall{
			WorkerInstanceID: abandoned.WorkerInstanceID, ExecutionID: abandoned.ExecutionID,
		})
		require.NoError(t, err)
		f.Starts(abandoned.ExecutionID)

		require.NoError(t, b.Client.Lane("default").Pause(f.Ctx, "a test"))
		id = f.Create(0)
		require.NoError(t, b.Client.Lane("default").Resume(f.Ctx))
		f.Starts(id)
	})
}

// A keeper counts the upstreams that it cancels because a join does not need them.
func TestSiblingsAreCounted(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			reader := metric.NewManualReader()
			b := enginetest.New(t, kind, runtime.OpenConfig{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
			f := &fixture.Outsider{
				T: t, Ctx: enginetest.Context(t), Core: engine.ConnOf(b.Engine.Internal()),
				P: keyspace.Partition{Family: keyspace.FlowFamily, Index: 3},
			}
			up := f.Create(0, f.Later)
			flow, join := f.Join(up, f.Create(0, f.Later))
			_, err := f.Core.ResolveDependency(f.Ctx, enginerpc.ResolveDependencyCall{
				DownstreamExecutionID: join, UpstreamExecutionID: up, LaneID: "default", EdgeID: "0", UpstreamOutcome: "success",
				FlowID: flow, GroupExecutionID: join,
			})
			require.NoError(t, err)
			k := enginetest.NewKeeper(t, b.Engine, runtime.KeeperConfig{SiblingNamespace: "default"})
			b.Run(t, "keeper", k.Run)
			enginetest.Eventually(t, func() string {
				if fixture.Collect(t, reader)["flowfabric.keeper.siblings{cancelled}"] == 0 {
					return "nothing is cancelled"
				}
				return ""
			})
			// The upstream whose end was reported to the join has not ended, and is not needed either.
			require.Equal(t, map[string]int64{"cancelled": 2}, k.Stats().Siblings)
			counted := fixture.Collect(t, reader)
			require.EqualValues(t, 2, counted["flowfabric.keeper.siblings_dispatched{sibling_quorum_satisfied}"])
			require.EqualValues(t, 0, counted["flowfabric.keeper.siblings_dispatched{sibling_quorum_impossible}"])
			require.Contains(t, counted, "flowfabric.keeper.sibling_groups{completed_drain}")
		})
	}
}
