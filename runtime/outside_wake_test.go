package runtime_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// outsider is another program of the contract, which creates executions and ends waits call by call.
type outsider struct {
	t    *testing.T
	ctx  context.Context
	core *enginerpc.Conn
	p    keyspace.Partition
	// started gets the id of each execution when an attempt of it starts.
	started chan string
}

const outsideKind = "single"

func (f *outsider) handler() activity.Handler {
	return activity.New(outsideKind, func(ctx context.Context, fail int) (int, error) {
		info, _ := activity.Info(ctx)
		f.started <- info.ExecutionID
		if info.Attempt <= fail {
			return 0, errors.New("to be retried")
		}
		return 1, nil
	})
}

// create creates an execution that fails a number of times.
func (f *outsider) create(fail int, change ...func(*enginerpc.CreateExecutionCall)) enginecore.ExecutionID {
	f.t.Helper()
	call := enginerpc.CreateExecutionCall{
		ExecutionID: keyspace.NewExecutionID(f.p), Namespace: "default", LaneID: "default", ExecutionKind: outsideKind,
		CreatorIdentity: "test", InputPayload: []byte(strconv.Itoa(fail)), PartitionID: strconv.Itoa(int(f.p.Index)),
	}
	for _, c := range change {
		c(&call)
	}
	_, err := f.core.CreateExecution(f.ctx, call)
	require.NoError(f.t, err)
	return call.ExecutionID
}

// starts waits until an attempt of an execution starts.
func (f *outsider) starts(id enginecore.ExecutionID) {
	f.t.Helper()
	for {
		select {
		case got := <-f.started:
			if got == string(id) {
				return
			}
		case <-f.ctx.Done():
			f.t.Fatal("it was not claimed")
		}
	}
}

func (f *outsider) in(d time.Duration) time.Time {
	f.t.Helper()
	now, err := f.core.Now(f.ctx)
	require.NoError(f.t, err)
	return now.Add(d)
}

// later delays an execution for so long that it starts when it is promoted.
func (f *outsider) later(c *enginerpc.CreateExecutionCall) { c.DelayUntil = f.in(time.Hour) }

func (f *outsider) promote(id enginecore.ExecutionID) {
	f.t.Helper()
	_, err := f.core.PromoteDelayed(f.ctx, enginerpc.PromoteDelayedCall{
		LaneID: "default", ExecutionID: id, Now: f.in(2 * time.Hour),
	})
	require.NoError(f.t, err)
}

// claim leases a new execution to a worker of the other program.
func (f *outsider) claim() enginerpc.ClaimExecutionCall {
	f.t.Helper()
	call := enginerpc.ClaimExecutionCall{
		ExecutionID: f.create(0), WorkerID: "other", WorkerInstanceID: "other-1", LaneID: "default",
		LeaseID: enginecore.LeaseID(uuid.NewString()), LeaseTTL: time.Hour, RenewBefore: time.Minute,
		AttemptID: keyspace.AttemptID(uuid.NewString()),
	}
	_, err := f.core.IssueClaimGrant(f.ctx, enginerpc.IssueClaimGrantCall{Grant: enginerpc.Grant{
		ExecutionID: call.ExecutionID, WorkerID: call.WorkerID, WorkerInstanceID: call.WorkerInstanceID, LaneID: call.LaneID,
		GrantTTL: time.Hour,
	}})
	require.NoError(f.t, err)
	_, err = f.core.ClaimExecution(f.ctx, call)
	require.NoError(f.t, err)
	return call
}

// suspend suspends a new execution until the signal "go", and returns the signal.
func (f *outsider) suspend() enginerpc.Signal {
	f.t.Helper()
	_, err := f.core.RotateWaitpointHMACSecret(f.ctx, enginerpc.RotateWaitpointHMACSecretCall{
		Partition: f.p, NewKID: "k1", NewSecretHex: "00ff", Grace: time.Hour,
	})
	require.NoError(f.t, err)
	held := f.claim()
	reply, err := f.core.SuspendExecution(f.ctx, enginerpc.SuspendExecutionCall{
		WorkerInstanceID: held.WorkerInstanceID, LaneID: held.LaneID, ExecutionID: held.ExecutionID, AttemptID: held.AttemptID,
		LeaseID: held.LeaseID, LeaseEpoch: 1, SuspensionID: keyspace.SuspensionID(uuid.NewString()),
		WaitpointID: enginecore.WaitpointID(uuid.NewString()), WaitpointKey: "key", ReasonCode: "waiting_for_signal",
		RequestedBy: "test", ResumeConditionJSON: []byte(`{"required_signal_names":["go"]}`), ResumePolicyJSON: []byte("{}"),
	})
	require.NoError(f.t, err)
	return enginerpc.Signal{
		SignalID: enginecore.SignalID(uuid.NewString()), ExecutionID: held.ExecutionID, WaitpointID: reply.WaitpointID,
		SignalName: "go", SignalCategory: "c", SourceType: "user", SourceIdentity: "me", WaitpointToken: reply.WaitpointToken,
	}
}

// link makes an execution the upstream of another, in a flow that is created call by call.
func (f *outsider) link(up, down enginecore.ExecutionID) {
	f.t.Helper()
	flow, edge := enginecore.FlowID(uuid.NewString()), enginecore.EdgeID(uuid.NewString())
	_, err := f.core.CreateFlow(f.ctx, enginerpc.CreateFlowCall{
		Partition: f.p, FlowID: flow, FlowKind: "f", Namespace: "default",
	})
	require.NoError(f.t, err)
	for _, id := range []enginecore.ExecutionID{up, down} {
		_, err := f.core.AddExecutionToFlow(f.ctx, enginerpc.AddExecutionToFlowCall{FlowID: flow, ExecutionID: id})
		require.NoError(f.t, err)
	}
	_, err = f.core.StageDependencyEdge(f.ctx, enginerpc.StageDependencyEdgeCall{
		FlowID: flow, EdgeID: edge, UpstreamExecutionID: up, DownstreamExecutionID: down, ExpectedGraphRevision: 2,
	})
	require.NoError(f.t, err)
	_, err = f.core.ApplyDependencyToChild(f.ctx, enginerpc.ApplyDependencyToChildCall{
		FlowID: flow, EdgeID: edge, UpstreamExecutionID: up, DownstreamExecutionID: down, LaneID: "default", GraphRevision: 3,
	})
	require.NoError(f.t, err)
}

func retriedSoon(c *enginerpc.CreateExecutionCall) {
	c.PolicyJSON = []byte(`{"retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":50}}}`)
}

// Executions that belong to no run reach an idle worker by messages alone: it neither sweeps nor renews for an hour.
func TestExecutionsOutsideRunsWakeWorkers(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		f := &outsider{
			t: t, ctx: enginetest.Context(t), core: engine.ConnOf(b.Engine.Internal()), started: make(chan string, 64),
			p: keyspace.Partition{Family: keyspace.FlowFamily, Index: 3},
		}
		signal, abandoned := f.suspend(), f.claim()
		blocked := f.create(0)
		_, err := f.core.BlockExecutionForAdmission(f.ctx, enginerpc.BlockExecutionForAdmissionCall{
			LaneID: "default", ExecutionID: blocked, BlockingReason: "paused_by_operator",
		})
		require.NoError(t, err)
		up, down := f.create(0, f.later), f.create(0)
		f.link(up, down)
		b.Keeper(t)
		b.MessageWorker(t, []activity.Handler{f.handler()})
		fixture.Heard(f.ctx, t, b, "wake", 1)

		id := f.create(0)
		f.starts(id)
		enginetest.Eventually(t, func() string {
			if _, err := f.core.ReplayExecution(f.ctx, enginerpc.ReplayExecutionCall{LaneID: "default", ExecutionID: id}); err != nil {
				return err.Error()
			}
			return ""
		})
		f.starts(id)

		f.starts(f.create(0, func(c *enginerpc.CreateExecutionCall) { c.DelayUntil = f.in(100 * time.Millisecond) }))
		id = f.create(0, f.later)
		f.promote(id)
		f.starts(id)

		id = f.create(1, retriedSoon)
		f.starts(id)
		f.starts(id)

		_, err = f.core.UnblockExecution(f.ctx, enginerpc.UnblockExecutionCall{LaneID: "default", ExecutionID: blocked})
		require.NoError(t, err)
		f.starts(blocked)

		f.promote(up)
		f.starts(up)
		f.starts(down)

		_, err = f.core.DeliverSignal(f.ctx, enginerpc.DeliverSignalCall{LaneID: "default", Signal: signal})
		require.NoError(t, err)
		f.starts(signal.ExecutionID)

		_, err = f.core.RevokeLease(f.ctx, enginerpc.RevokeLeaseCall{
			WorkerInstanceID: abandoned.WorkerInstanceID, ExecutionID: abandoned.ExecutionID,
		})
		require.NoError(t, err)
		f.starts(abandoned.ExecutionID)

		require.NoError(t, b.Client.Lane("default").Pause(f.ctx, "a test"))
		id = f.create(0)
		require.NoError(t, b.Client.Lane("default").Resume(f.ctx))
		f.starts(id)
	})
}

// A keeper counts the upstreams that it cancels because a join does not need them.
func TestSiblingsAreCounted(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			reader := metric.NewManualReader()
			b := enginetest.New(t, kind, runtime.OpenConfig{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
			f := &outsider{
				t: t, ctx: enginetest.Context(t), core: engine.ConnOf(b.Engine.Internal()),
				p: keyspace.Partition{Family: keyspace.FlowFamily, Index: 3},
			}
			up := f.create(0, f.later)
			flow, join := f.join(up, f.create(0, f.later))
			_, err := f.core.ResolveDependency(f.ctx, enginerpc.ResolveDependencyCall{
				DownstreamExecutionID: join, UpstreamExecutionID: up, LaneID: "default", EdgeID: "0", UpstreamOutcome: "success",
				FlowID: flow, GroupExecutionID: join,
			})
			require.NoError(t, err)
			k := enginetest.NewKeeper(t, b.Engine, runtime.KeeperConfig{SiblingNamespace: "default"})
			b.Run(t, "keeper", k.Run)
			enginetest.Eventually(t, func() string {
				if collect(t, reader)["flowfabric.keeper.siblings{cancelled}"] == 0 {
					return "nothing is cancelled"
				}
				return ""
			})
			// The upstream whose end was reported to the join has not ended, and is not needed either.
			require.Equal(t, map[string]int64{"cancelled": 2}, k.Stats().Siblings)
			counted := collect(t, reader)
			require.EqualValues(t, 2, counted["flowfabric.keeper.siblings_dispatched{sibling_quorum_satisfied}"])
			require.EqualValues(t, 0, counted["flowfabric.keeper.siblings_dispatched{sibling_quorum_impossible}"])
			require.Contains(t, counted, "flowfabric.keeper.sibling_groups{completed_drain}")
		})
	}
}

// join makes an execution the join of others that waits for any of them. The id of an edge is the number of its
// upstream.
func (f *outsider) join(ups ...enginecore.ExecutionID) (enginecore.FlowID, enginecore.ExecutionID) {
	f.t.Helper()
	flow, join := enginecore.FlowID(uuid.NewString()), f.create(0, f.later)
	_, err := f.core.CreateFlow(f.ctx, enginerpc.CreateFlowCall{
		Partition: f.p, FlowID: flow, FlowKind: "f", Namespace: "default",
	})
	require.NoError(f.t, err)
	for _, id := range append(ups, join) {
		_, err := f.core.AddExecutionToFlow(f.ctx, enginerpc.AddExecutionToFlowCall{FlowID: flow, ExecutionID: id})
		require.NoError(f.t, err)
	}
	_, err = f.core.SetEdgeGroupPolicy(f.ctx, enginerpc.SetEdgeGroupPolicyCall{
		FlowID: flow, DownstreamExecutionID: join, PolicyVariant: "any_of", OnSatisfied: "cancel_remaining", K: 1,
	})
	require.NoError(f.t, err)
	for i, up := range ups {
		edge := enginecore.EdgeID(strconv.Itoa(i))
		_, err := f.core.StageDependencyEdge(f.ctx, enginerpc.StageDependencyEdgeCall{
			FlowID: flow, EdgeID: edge, UpstreamExecutionID: up, DownstreamExecutionID: join,
			ExpectedGraphRevision: int64(len(ups) + 1 + i),
		})
		require.NoError(f.t, err)
		_, err = f.core.ApplyDependencyToChild(f.ctx, enginerpc.ApplyDependencyToChildCall{
			FlowID: flow, EdgeID: edge, UpstreamExecutionID: up, DownstreamExecutionID: join, LaneID: "default",
			GroupExecutionID: join,
		})
		require.NoError(f.t, err)
	}
	return flow, join
}
