package enginetest_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// TestFirstAttempt_GetsRecordOnDemand: the first attempt of a plain node is stored in the node's row only. Each event
// that needs a record writes one that is as complete as a record from the start of the attempt.
func TestFirstAttempt_GetsRecordOnDemand(t *testing.T) {
	t.Parallel()
	cases := []struct {
		what  string
		do    func(t *testing.T, g *graph, x enginerpc.ClaimedExecution)
		state string // of the record
	}{
		{"failure", func(_ *testing.T, g *graph, _ enginerpc.ClaimedExecution) { g.end("a", "failed") }, "ended_failure"},
		{"cancel", func(_ *testing.T, g *graph, _ enginerpc.ClaimedExecution) { g.end("a", "cancelled") }, "ended_cancelled"},
		{"deadline", func(_ *testing.T, g *graph, _ enginerpc.ClaimedExecution) { g.end("a", "expired") }, "ended_failure"},
		{"delay", func(t *testing.T, g *graph, x enginerpc.ClaimedExecution) {
			_, err := g.e.DelayExecution(g.ctx, enginerpc.DelayExecutionCall{
				ExecutionID: x.ExecutionID, AttemptIndex: x.AttemptIndex, WorkerInstanceID: "w1", LaneID: g.lane, LeaseID: x.LeaseID,
				LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID, DelayUntil: time.Now().Add(time.Hour),
			})
			require.NoError(t, err)
		}, "suspended"},
		{"output", func(t *testing.T, g *graph, x enginerpc.ClaimedExecution) {
			_, err := g.e.AppendFrame(g.ctx, enginerpc.AppendFrameCall{
				ExecutionID: x.ExecutionID, AttemptIndex: x.AttemptIndex, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch,
				AttemptID: x.AttemptID, FrameType: "text", Payload: []byte("hello"),
			})
			require.NoError(t, err)
		}, "started"},
		{"takeover", func(t *testing.T, g *graph, x enginerpc.ClaimedExecution) {
			_, err := g.e.RevokeLease(g.ctx, enginerpc.RevokeLeaseCall{
				WorkerInstanceID: "w1", ExecutionID: x.ExecutionID, ExpectedLeaseID: x.LeaseID, RevokeReason: "test",
			})
			require.NoError(t, err)
			g.claim()
			assert.EqualValues(t, 1, g.leases["a"].AttemptIndex)
		}, "interrupted_reclaimed"},
	}
	for _, tt := range cases {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				g := newGraph(t, b)
				g.whole([]string{"a"})
				g.claim()
				x := g.leases["a"]
				record := func() map[string]string { return g.hash(g.e.Keys().AttemptRecord(x.ExecutionID, 0)) }
				require.Empty(t, record())
				b.Check(t, invariant.AnyTime)
				started := g.core("a")["started_at"]

				tt.do(t, g, x)
				r := record()
				for field, want := range map[string]string{
					"attempt_id": string(x.AttemptID), "execution_id": string(x.ExecutionID), "attempt_index": "0", "attempt_type": "initial",
					"attempt_state": tt.state, "started_at": started, "lease_epoch": "1", "lease_id": string(x.LeaseID),
					"worker_id": "w", "worker_instance_id": "w1",
				} {
					assert.Equal(t, want, r[field], field)
				}
				b.Check(t, invariant.AnyTime)
			})
		})
	}
}

// TestReplay_OfAttemptWithoutRecord: a replay writes the record of the succeeded attempt from the data in the node's
// row.
func TestReplay_OfAttemptWithoutRecord(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a"})
		g.claim()
		x := g.leases["a"]
		g.end("a", "success")
		require.Empty(t, g.hash(g.e.Keys().AttemptRecord(x.ExecutionID, 0)))
		ended := g.core("a")["completed_at"]
		b.Check(t, invariant.AnyTime)

		g.replay("a")
		r := g.hash(g.e.Keys().AttemptRecord(x.ExecutionID, 0))
		assert.Equal(t, "ended_success", r["attempt_state"])
		assert.Equal(t, string(x.AttemptID), r["attempt_id"])
		assert.Equal(t, ended, r["ended_at"])
		b.Check(t, invariant.AnyTime)
		g.end("a", "success")
		assert.Equal(t, "ended_success", g.hash(g.e.Keys().AttemptRecord(x.ExecutionID, 1))["attempt_state"])
		b.Check(t, invariant.AnyTime)
	})
}

// TestTimedNode runs nodes whose attempts have a timeout, which cost little more than those without: it is in the index
// while the attempt runs, and the first renewal leaves its times in the record until the end.
func TestTimedNode(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		call := g.describe([]string{"a", "b", "c"}, [2]string{"a", "b"}, [2]string{"b", "c"})
		for i := range call.Nodes {
			call.Nodes[i].AttemptTimeout = time.Minute
		}
		g.submit(call)
		g.claim()
		timeouts := func() int64 {
			n, err := g.e.Client().Do(g.ctx, g.e.Client().B().Zcard().Key(g.e.Keys().IndexAttemptTimeout(g.p)).Build()).AsInt64()
			require.NoError(t, err)
			return n
		}
		assert.EqualValues(t, 1, timeouts())
		assert.Empty(t, g.hash(g.e.Keys().AttemptRecord(g.node("a"), 0)))
		b.Check(t, invariant.AnyTime)

		_, err := g.e.Renew(g.ctx, enginerpc.RenewCall{Partition: g.p, WorkerInstanceID: "w1", LeaseTTL: time.Hour, Leases: []enginerpc.RenewLease{{
			ExecutionID: g.leases["a"].ExecutionID, LeaseID: g.leases["a"].LeaseID, LeaseEpoch: 1, AttemptID: g.leases["a"].AttemptID,
		}}})
		require.NoError(t, err)
		assert.NotEmpty(t, g.core("a")["lease_renewal_deadline"])
		g.end("a", "success")
		assert.Empty(t, g.core("a")["lease_renewal_deadline"])
		g.end("b", "success")
		g.end("c", "success")
		assert.Equal(t, "success", g.result().Outcome)
		assert.Zero(t, timeouts())
		b.Check(t, invariant.AnyTime)
	})
}

// A node is ended that is about to run its child run again. That run has ended before, and does not end again.
func TestNodeEndsBeforeChildRerun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, nil)
		child := enginecore.FlowID(uuid.NewString())
		link := func() (enginerpc.ClaimedExecution, string) {
			x := l.take("task")
			linked, err := l.e.LinkChild(l.ctx, enginerpc.LinkChildCall{
				Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
				Number: 1, ChildFlowID: child, InputHash: "h",
			})
			require.NoError(t, err)
			return x, linked.State
		}
		end := func(x enginerpc.ClaimedExecution) {
			l.cancelFlow()
			_, err := l.e.EndStopped(l.ctx, enginerpc.EndStoppedCall{Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID})
			require.NoError(t, err)
			require.Empty(t, l.flowCore()["closed_at"], "the child run has not ended")
			_, err = l.e.ChildEnded(l.ctx, enginerpc.ChildEndedCall{
				Partition: l.p, ExecutionID: x.ExecutionID, ChildFlowID: child, Ends: 1, Outcome: "cancelled",
			})
			require.NoError(t, err)
			require.NotEmpty(t, l.flowCore()["closed_at"])
		}
		x, state := link()
		require.Equal(t, "new", state)
		end(x)
		l.rerun("task")
		x, state = link()
		require.Equal(t, "rerun", state)
		end(x)
	})
}
