package renewal

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
)

// lateCalls releases a lease while the reply of the claim that created it arrives.
type lateCalls struct {
	engine.Backend
	arrives  func()
	released []enginecore.LeaseID
}

func (c *lateCalls) Release(_ context.Context, call enginerpc.ReleaseCall) (enginerpc.ReleaseReply, error) {
	c.arrives()
	c.released = append(c.released, call.LeaseID)
	return enginerpc.ReleaseReply{}, nil
}

// A function does not begin under a lease that was released because its claim had no reply, when the reply
// arrives later: another worker may have the execution by then.
func TestLateClaimReplyStartsNoFunction(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"the reply comes first": true, "the lease goes first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			late := new(lateCalls)
			s := &attempt.Shared{
				Base:    t.Context(),
				Session: &engine.Session{Backend: late, Logger: slog.New(slog.DiscardHandler)},
			}
			book := New(s, Config{})
			claimed := &enginerpc.ClaimedExecution{
				ExecutionID: "{fp:1}:x", LeaseID: "lease", LeaseEpoch: 1, AttemptID: "try",
			}
			held := new(attempt.Attempt)
			held.Init(s, dispatch.LaneShard{}, claimed, time.Now())
			late.arrives = func() { require.True(t, book.Add(held)) }
			orphans := []enginerpc.HeldLease{{
				ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID, LeaseEpoch: 1, AttemptID: "try",
			}}
			book.releaseUnknown(keyspace.Partition{}, orphans)
			require.Empty(t, late.released, "it is seen for the first time")
			if before {
				late.arrives()
			}
			book.releaseUnknown(keyspace.Partition{}, orphans)
			require.Equal(t, !before, held.Settled.Load())
			if before {
				require.Empty(t, late.released)
				require.NoError(t, context.Cause(held.Ctx))
				return
			}
			require.Equal(t, []enginecore.LeaseID{"lease"}, late.released)
			require.ErrorIs(t, context.Cause(held.Ctx), engine.ErrLeaseLost)
		})
	}
}

// deadPrimary answers renewals in all partitions but one, where they wait until the test ends.
type deadPrimary struct {
	engine.Backend
	dead  keyspace.Partition
	calls chan keyspace.Partition
}

func (d *deadPrimary) Renew(ctx context.Context, call enginerpc.RenewCall) (enginerpc.RenewReply, error) {
	d.calls <- call.Partition
	if call.Partition == d.dead {
		<-ctx.Done()
		return enginerpc.RenewReply{}, ctx.Err()
	}
	return enginerpc.RenewReply{}, nil
}

// A partition whose server does not answer delays the renewals of no other one.
func TestDeadPrimaryDoesNotDelayOtherRenewals(t *testing.T) {
	t.Parallel()
	backend := &deadPrimary{dead: keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}, calls: make(chan keyspace.Partition, 16)}
	s := &attempt.Shared{
		Base: t.Context(), LeaseTTL: time.Hour,
		Session: &engine.Session{Backend: backend, Logger: slog.New(slog.DiscardHandler)},
	}
	leases := New(s, Config{})
	tasks := make([]*attempt.Attempt, 3)
	for i := range tasks {
		p := keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)}
		id := enginecore.ExecutionID(p.Tag() + ":x")
		tasks[i] = new(attempt.Attempt)
		tasks[i].Init(s, dispatch.LaneShard{Partition: p}, &enginerpc.ClaimedExecution{ExecutionID: id}, time.Now())
		require.True(t, leases.Add(tasks[i]))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var rounds sync.WaitGroup
	round := func() {
		before := []time.Time{tasks[0].LeaseEnd(), tasks[1].LeaseEnd(), tasks[2].LeaseEnd()}
		rounds.Go(func() { leases.renew(ctx) })
		for _, i := range []int{0, 2} {
			require.Eventually(t, func() bool { return tasks[i].LeaseEnd().After(before[i]) }, 5*time.Minute, time.Millisecond)
		}
		require.Equal(t, before[1], tasks[1].LeaseEnd())
	}
	round()
	require.Eventually(t, func() bool { return len(backend.calls) == 3 }, 5*time.Minute, time.Millisecond)
	round()
	cancel()
	rounds.Wait()
	require.Len(t, backend.calls, 5, "no second renewal in the partition of the dead primary")
}

// The reason of a control message becomes the cause of the task's context, also if the message arrives first. A
// message of kind StopCancelled always means ErrCancelled, whatever its reason.
func TestControlMessageSetsCause(t *testing.T) {
	t.Parallel()
	for said, cause := range map[[2]string]error{
		{engine.StopExpired, "attempt_timeout"}: engine.ErrStartToClose, {engine.StopExpired, "flow_deadline"}: engine.ErrDeadline,
		{engine.StopExpired, "execution_deadline"}: engine.ErrDeadline, {engine.StopRevoked, "lease_revoked"}: engine.ErrLeaseLost,
		{engine.StopExpired, "operator"}: engine.ErrCancelled, {engine.StopCancelled, "enough of it"}: engine.ErrCancelled,
		{engine.StopCancelled, "attempt_timeout"}: engine.ErrCancelled, {engine.StopCancelled, "flow_deadline"}: engine.ErrCancelled,
		{engine.StopCancelled, "lease_revoked"}: engine.ErrCancelled,
	} {
		kind, reason := said[0], said[1]
		for _, early := range []bool{false, true} {
			s := &attempt.Shared{
				Base: t.Context(), LeaseTTL: time.Hour,
				Session: &engine.Session{Logger: slog.New(slog.DiscardHandler)},
			}
			leases := New(s, Config{})
			claimed := &enginerpc.ClaimedExecution{ExecutionID: "{fp:1}:x", LeaseID: "lease"}
			held := new(attempt.Attempt)
			held.Init(s, dispatch.LaneShard{}, claimed, time.Now())
			if early {
				leases.Cancel(enginerpc.CancelMessage{
					ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID, Kind: kind, Reason: reason,
				})
			}
			require.True(t, leases.Add(held))
			if !early {
				leases.Cancel(enginerpc.CancelMessage{
					ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID, Kind: kind, Reason: reason,
				})
			}
			require.ErrorIs(t, context.Cause(held.Ctx), cause, said)
			require.True(t, held.Settled.Load(), said)
		}
	}
}
