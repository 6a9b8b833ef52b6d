package enginetest_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// lostReply is a call that releases the lease of a task, and whose replies are lost repeatedly.
type lostReply struct {
	*waitFixture
	// giveUp sends the call, which also claims up to one execution, and returns the leased execution.
	giveUp func(repeated bool) []enginerpc.ClaimedExecution
	// resume ends the wait of the task.
	resume func()
	// over is the state of the task when its run was cancelled before the call.
	over string
}

// claimOne is a claim of one execution of a lane.
func (l *waitFixture) claimOne(lane enginecore.LaneID) enginerpc.ClaimRequest {
	return enginerpc.ClaimRequest{
		LaneID: lane, WorkerID: "w", WorkerInstanceID: "w1", ClaimID: uuid.NewString(), Count: 1, LeaseTTL: time.Hour,
		Kinds: "\n" + groupKind + "\n",
	}
}

// lostSuspend makes a task wait for a signal.
func lostSuspend(t *testing.T, b *enginetest.Bench, lane enginecore.LaneID) lostReply {
	t.Helper()
	l := newWaitFixture(t, b)
	l.submit([]string{"task"}, nil)
	call := l.suspension(l.take("task"), "ask", waitSpec{names: []string{"yes"}})
	if lane == "" {
		lane = l.lane
	}
	call.ClaimRequest = l.claimOne(lane)
	return lostReply{l, func(repeated bool) []enginerpc.ClaimedExecution {
		t.Helper()
		call.Repeated = repeated
		reply, err := l.e.Suspend(l.ctx, call)
		require.NoError(t, err)
		require.Equal(t, enginerpc.StatusOK, reply.Status)
		return reply.Executions
	}, func() {
		require.Equal(t, "resumed", l.send("task", "yes", "ann", answer))
	}, "cancelled"}
}

// lostAwaitChild makes a task wait for its child run.
func lostAwaitChild(t *testing.T, b *enginetest.Bench, lane enginecore.LaneID) lostReply {
	t.Helper()
	l := newWaitFixture(t, b)
	l.submit([]string{"task"}, nil)
	x := l.take("task")
	child := enginecore.FlowID(uuid.NewString())
	linked, err := l.e.LinkChild(l.ctx, enginerpc.LinkChildCall{
		Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
		Number: 1, ChildFlowID: child, InputHash: "h",
	})
	require.NoError(t, err)
	require.Equal(t, "new", linked.State)
	if lane == "" {
		lane = l.lane
	}
	call := enginerpc.AwaitChildCall{
		Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
		ChildFlowID: child, ClaimRequest: l.claimOne(lane),
	}
	return lostReply{l, func(repeated bool) []enginerpc.ClaimedExecution {
		t.Helper()
		call.Repeated = repeated
		reply, err := l.e.AwaitChild(l.ctx, call)
		require.NoError(t, err)
		require.Equal(t, enginerpc.StatusOK, reply.Status)
		return reply.Executions
	}, func() {
		_, err := l.e.ChildEnded(l.ctx, enginerpc.ChildEndedCall{
			Partition: l.p, ExecutionID: x.ExecutionID, ChildFlowID: child, Ends: 1, Outcome: "success",
		})
		require.NoError(t, err)
	}, "waiting_children"}
}

// eachLostReply runs a test for each call that releases a lease to wait, and claims with it.
func eachLostReply(t *testing.T, test func(t *testing.T, b *enginetest.Bench, give func(enginecore.LaneID) lostReply)) {
	for name, give := range map[string]func(*testing.T, *enginetest.Bench, enginecore.LaneID) lostReply{
		"suspend": lostSuspend, "await child": lostAwaitChild,
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				test(t, b, func(lane enginecore.LaneID) lostReply { return give(t, b, lane) })
			})
		})
	}
}

// The wait has ended before the call is repeated, so the repeat leases the very execution that the call has suspended.
// The reply of the repeat is lost, too: the next repeat returns the same lease.
func TestRepeatLeasesSuspendedExecution(t *testing.T) {
	t.Parallel()
	eachLostReply(t, func(t *testing.T, _ *enginetest.Bench, give func(enginecore.LaneID) lostReply) {
		l := give("")
		require.Empty(t, l.giveUp(false))
		l.resume()
		leased := l.giveUp(true)
		require.Len(t, leased, 1)
		require.Equal(t, l.node("task"), leased[0].ExecutionID)
		l.unchanged(func() {
			again := l.giveUp(true)
			require.Len(t, again, 1)
			require.Equal(t, leased[0].LeaseID, again[0].LeaseID)
			require.Equal(t, leased[0].LeaseEpoch, again[0].LeaseEpoch)
		})
	})
}

// Another claim has resumed the execution before the call is repeated: the repeat reports success.
func TestRepeatAfterTheExecutionWasResumed(t *testing.T) {
	t.Parallel()
	eachLostReply(t, func(t *testing.T, _ *enginetest.Bench, give func(enginecore.LaneID) lostReply) {
		l := give("")
		require.Empty(t, l.giveUp(false))
		l.resume()
		resumed := l.take("task")
		require.Empty(t, l.giveUp(true))
		require.Equal(t, string(resumed.LeaseID), l.core("task")["current_lease_id"])

		l.suspend(resumed, "another step", waitSpec{})
		require.Empty(t, l.giveUp(true))
		require.Equal(t, "suspended", l.state("task"))
	})
}

// The run is closed before the task begins to wait, so the task is cancelled once its child run has ended. The repeat
// returns the executions that the call has leased.
func TestRepeatInClosedRun(t *testing.T) {
	t.Parallel()
	eachLostReply(t, func(t *testing.T, b *enginetest.Bench, give func(enginecore.LaneID) lostReply) {
		next := newWaitFixture(t, b)
		l := give(next.lane)
		for next.p != l.p {
			next = newWaitFixture(t, b)
			l = give(next.lane)
		}
		next.submit([]string{"next"}, nil)
		_, err := l.e.CancelFlow(l.ctx, enginerpc.CancelFlowCall{
			Partition: l.p, FlowID: l.id, Reason: "test", Actor: "test", Policy: "cancel_pending",
		})
		require.NoError(t, err)
		leased := l.giveUp(false)
		require.Len(t, leased, 1)
		require.Equal(t, l.over, l.state("task"))
		l.unchanged(func() {
			again := l.giveUp(true)
			require.Len(t, again, 1)
			require.Equal(t, leased[0].LeaseID, again[0].LeaseID)
		})
	})
}
