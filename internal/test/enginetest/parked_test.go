package enginetest_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// A member that continues after a cancel which spares it ends as soon as another tool suspends it: nothing of its flow
// starts any longer, so the flow would stay open.
func TestSparedMemberEndsWhenSuspended(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for name, park := range map[string]func(*waitFixture, enginerpc.ClaimedExecution) error{
			"suspend": func(l *waitFixture, x enginerpc.ClaimedExecution) error {
				_, err := l.e.SuspendExecution(l.ctx, enginerpc.SuspendExecutionCall{
					ExecutionID: x.ExecutionID, WorkerInstanceID: "w1", LaneID: l.lane, AttemptIndex: x.AttemptIndex, AttemptID: x.AttemptID,
					LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, SuspensionID: keyspace.SuspensionID(uuid.NewString()),
					WaitpointID: enginecore.WaitpointID(uuid.NewString()), WaitpointKey: "key", ReasonCode: "waiting_for_approval",
					RequestedBy: "worker", ResumeConditionJSON: waitSpec{}.condition(), ResumePolicyJSON: []byte("{}"),
				})
				return err
			},
			"wait for children": func(l *waitFixture, x enginerpc.ClaimedExecution) error {
				_, err := l.e.MoveToWaitingChildren(l.ctx, enginerpc.MoveToWaitingChildrenCall{
					ExecutionID: x.ExecutionID, WorkerInstanceID: "w1", LaneID: l.lane, AttemptIndex: x.AttemptIndex, AttemptID: x.AttemptID,
					LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch,
				})
				return err
			},
			"delay": func(l *waitFixture, x enginerpc.ClaimedExecution) error {
				_, err := l.e.DelayExecution(l.ctx, enginerpc.DelayExecutionCall{
					ExecutionID: x.ExecutionID, WorkerInstanceID: "w1", LaneID: l.lane, AttemptIndex: x.AttemptIndex, AttemptID: x.AttemptID,
					LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, DelayUntil: time.Now().Add(time.Hour),
				})
				return err
			},
			"fail for a retry": func(l *waitFixture, x enginerpc.ClaimedExecution) error {
				_, err := l.e.FailExecution(l.ctx, enginerpc.FailExecutionCall{
					ExecutionID: x.ExecutionID, WorkerInstanceID: "w1", LaneID: l.lane, AttemptIndex: x.AttemptIndex, AttemptID: x.AttemptID,
					LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, FailureReason: "once more", FailureCategory: "error",
					RetryPolicyJSON: []byte(`{"max_retries":3,"backoff":{"type":"fixed","delay_ms":3600000}}`),
				})
				return err
			},
		} {
			l := newWaitFixture(t, b)
			l.submit([]string{"task", "other"}, nil, link{"task", "other", "success_only"})
			x := l.take("task")
			_, err := l.e.CancelFlow(l.ctx, enginerpc.CancelFlowCall{
				Partition: l.p, FlowID: l.id, Reason: "enough", Actor: "test", Policy: "cancel_pending",
			})
			require.NoError(t, err)
			require.Equal(t, "active", l.state("task"), name)
			require.NoError(t, park(l, x), name)
			b.Check(t, invariant.AnyTime)
			l.tick()
			assert.Equal(t, "cancelled", l.state("task"), name)
			assert.NotEmpty(t, l.flowCore()["closed_at"], name)
		}
		b.Check(t, invariant.Quiescent)
	})
}

// Signals to a wait that has not begun are shown.
func TestEarlySignalsAreCounted(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, nil)
		x := l.take("task")
		l.open(x, "ask")
		require.Zero(t, l.at("task").Received)
		for i, source := range []string{"ann", "bob", "ann"} {
			require.Equal(t, "accepted", l.send("task", "yes", source, "1"))
			require.EqualValues(t, i+1, l.at("task").Received)
		}
		l.end("task", "success")
		b.Check(t, invariant.Quiescent)
	})
}

// A replay closes a waitpoint that a succeeded attempt has opened, since the node's new attempt will not wait at it.
func TestReplayClosesUnusedWaitpoint(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, outcome := range []string{"success", "failed"} {
			l := newWaitFixture(t, b)
			l.submit([]string{"task"}, nil)
			l.open(l.take("task"), "ask")
			w := l.at("task")
			l.end("task", outcome)
			_, err := l.e.ReplayExecution(l.ctx, enginerpc.ReplayExecutionCall{LaneID: l.lane, ExecutionID: l.node("task")})
			require.NoError(t, err)
			l.take("task")
			got := l.signal(l.signalling(w, "yes", "ann", "1")).Outcome
			if outcome == "failed" { // its waitpoints stay open after a failure
				require.Equal(t, "accepted", got)
				require.Len(t, l.list(false), 1)
			} else {
				require.Equal(t, "closed", got)
				require.Empty(t, l.list(false))
				require.Equal(t, "replayed", l.list(true)[0].CloseReason)
			}
			b.Check(t, invariant.AnyTime)
			l.end("task", "success")
		}
		b.Check(t, invariant.Quiescent)
	})
}
