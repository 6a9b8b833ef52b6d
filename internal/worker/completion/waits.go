package completion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// suspend suspends the execution until its signals arrive.
func (c *Completer) suspend(l *lease.Lease, o Outcome, slots int) (r Report) {
	s := o.Suspension
	about, failure := submit.EncodeAbout(activityspec.WaitText(s.Wait.Text))
	if failure != nil {
		return Report{Refused: activity.NonRetryable(fmt.Errorf("await %q: %w", s.Step, failure))}
	}
	id := uuid.NewString()
	call := enginerpc.SuspendCall{
		Partition: l.Shard.Partition, ExecutionID: l.Claimed.ExecutionID, LeaseID: l.Claimed.LeaseID,
		LeaseEpoch: l.Claimed.LeaseEpoch, AttemptID: l.Claimed.AttemptID, Step: s.Step,
		SuspensionID: keyspace.SuspensionID(id),
		WaitpointKey: submit.WaitpointKey(enginecore.WaitpointID(id)), Condition: submit.ConditionOf(s.Wait),
		Timeout:         s.Wait.Timeout,
		TimeoutBehavior: submit.TimeoutBehaviors[activityspec.TimeoutBehavior(s.Wait.OnTimeout)],
		Collect:         s.Wait.Collect,
		About:           about,
		ClaimRequest:    c.ClaimRequest(l.Shard.Lane, slots),
	}
	store := c.Session.Backend
	err := c.UntilKnown(l, func(ctx context.Context, repeated bool) error {
		call.Repeated = repeated
		sentAt := time.Now()
		var reply enginerpc.SuspendReply
		err := c.Session.Secrets.With(ctx, l.Shard.Partition, func() (err error) {
			reply, err = store.Suspend(ctx, call)
			return err
		})
		failure = lease.StepError(ctx, err)
		r = Report{
			Metric:  observe.OutcomeSuspended,
			Handoff: handoffOf(reply.Executions, reply.Candidates, false, reply.Remaining > 0, sentAt),
		}
		if reply.Status == enginerpc.StatusAlreadySatisfied {
			r = Report{Resumed: true, Brought: reply.Result}
		}
		return err
	})
	switch {
	case err == nil:
		return r
	case lease.IsFence(err) || retry.IsUnavailable(err) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled):
		// The engine may not know of the wait, but has not refused it either. The lease runs out.
		return Report{Metric: observe.OutcomeNotCommitted, Err: err}
	}
	return Report{Refused: fmt.Errorf("await %q: %w", s.Step, failure)}
}

// HeldWait is a wait that a program begins for an execution that it holds, and the ids of its records.
type HeldWait struct {
	wait       activityspec.Wait
	condition  []byte
	suspension keyspace.SuspensionID
	waitpoint  enginecore.WaitpointID
}

func NewHeldWait(w activityspec.Wait, condition []byte) *HeldWait {
	return &HeldWait{
		wait: w, condition: condition, suspension: keyspace.SuspensionID(uuid.NewString()),
		waitpoint: enginecore.WaitpointID(uuid.NewString()),
	}
}

// suspendHeld gives an execution up until signals arrive. The report has the token of the waitpoint.
func (c *Completer) suspendHeld(l *lease.Lease, w *HeldWait) Report {
	call := enginerpc.SuspendExecutionCall{
		WorkerInstanceID: c.Instance, LaneID: l.Shard.Lane, ExecutionID: l.Claimed.ExecutionID,
		AttemptIndex: l.Claimed.AttemptIndex, AttemptID: l.Claimed.AttemptID, LeaseID: l.Claimed.LeaseID,
		LeaseEpoch: l.Claimed.LeaseEpoch, SuspensionID: w.suspension, WaitpointID: w.waitpoint,
		WaitpointKey: submit.WaitpointKey(w.waitpoint), ReasonCode: "waiting_for_signal", RequestedBy: sourceWorker,
		ResumeConditionJSON: w.condition, ResumePolicyJSON: []byte("{}"),
		TimeoutBehavior: submit.TimeoutBehaviors[w.wait.OnTimeout],
	}
	var signature string
	err := c.UntilKnown(l, func(ctx context.Context, repeated bool) error {
		if w.wait.Timeout > 0 && call.TimeoutAt.IsZero() {
			now, err := c.Session.Core.Now(ctx)
			if err != nil {
				return err
			}
			call.TimeoutAt = now.Add(w.wait.Timeout)
		}
		return c.Session.Secrets.With(ctx, l.Shard.Partition, func() error {
			reply, err := c.Session.Backend.SuspendExecution(ctx, call)
			signature = reply.WaitpointToken
			if repeated && lease.IsFence(err) {
				signature, err = c.tokenOfLostReply(ctx, l, w.waitpoint, err)
			}
			return err
		})
	})
	r := reportOf(observe.OutcomeSuspended, err)
	if err == nil {
		r.Token, r.Err = engine.SealToken(l.Claimed.ExecutionID, w.waitpoint, signature)
	}
	return r
}

// tokenOfLostReply returns the token of the waitpoint of a suspension that was sent again and refused. If the waitpoint
// is there, a call before has made it and suspended the execution, whether or not the wait is over by now, and only its
// reply was lost. Otherwise the refusal is the error.
func (c *Completer) tokenOfLostReply(
	ctx context.Context, l *lease.Lease, id enginecore.WaitpointID, refusal error,
) (string, error) {
	key := c.Session.Core.Keys().WaitpointRecord(l.Shard.Partition, id)
	token, err := c.Session.Client.Do(ctx,
		c.Session.Client.B().Hget().Key(key).Field("waitpoint_token").Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", refusal
	}
	if err != nil {
		return "", engine.ReadError(ctx, "read the waitpoint", err)
	}
	return token, nil
}
