package worker

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// sourceWorker is the source that the record names of what the holder of a lease does.
const sourceWorker = "worker"

// giveUp makes a call that gives a lease up, and repeats it while the engine is unavailable and the lease lasts. A
// refusal of a repeated call by which the execution has come to the state that the call leads to, under this same
// lease, means that only the first reply was lost.
func (c *completer) giveUp(
	l *lease, metric, detail, state string, call func(ctx context.Context) error,
) report {
	err := c.untilKnown(l, func(ctx context.Context, repeated bool) error {
		err := call(ctx)
		if repeated && l.hasEnded(err, detail, state) {
			return nil
		}
		return err
	})
	return reportOf(metric, err)
}

// cancel ends an execution as cancelled.
func (c *completer) cancel(l *lease, reason string) report {
	call := enginerpc.CancelExecutionCall{
		AttemptIndex: l.claimed.AttemptIndex, WorkerInstanceID: c.instance, LaneID: l.shard.Lane,
		ExecutionID: l.claimed.ExecutionID, Reason: recordtext.Text(reason, engine.MaxReason), Source: sourceWorker,
		LeaseID: l.claimed.LeaseID, LeaseEpoch: l.claimed.LeaseEpoch,
	}
	return c.giveUp(l, engine.OutcomeCancelled, "terminal_outcome", "cancelled", func(ctx context.Context) error {
		_, err := c.session.Backend.CancelExecution(ctx, call)
		return err
	})
}

// delay gives an execution up until a time. Its attempt continues then.
func (c *completer) delay(l *lease, until time.Time) report {
	call := enginerpc.DelayExecutionCall{
		AttemptIndex: l.claimed.AttemptIndex, WorkerInstanceID: c.instance, LaneID: l.shard.Lane,
		ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID, LeaseEpoch: l.claimed.LeaseEpoch,
		AttemptID: l.claimed.AttemptID, DelayUntil: dueTime(until),
	}
	return c.giveUp(l, engine.OutcomeDelayed, "lifecycle_phase", "runnable", func(ctx context.Context) error {
		_, err := c.session.Backend.DelayExecution(ctx, call)
		return err
	})
}

// releaseUntilKnown gives an execution back. Where completer.release tries that once, it repeats the call.
func (c *completer) releaseUntilKnown(l *lease, reason string) report {
	return c.giveUp(l, engine.OutcomeReleased, "lifecycle_phase", "runnable", func(context.Context) error {
		return c.release(l, reason).err
	})
}

// dueTime returns a time in the whole milliseconds of the engine, rounded up; times before 1970 are 1970.
func dueTime(t time.Time) time.Time {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return time.UnixMilli(max(ms, 1))
}

// awaitChildren gives an execution up until all its dependencies are satisfied. Its attempt continues then.
func (c *completer) awaitChildren(l *lease) report {
	call := enginerpc.MoveToWaitingChildrenCall{
		AttemptIndex: l.claimed.AttemptIndex, WorkerInstanceID: c.instance, LaneID: l.shard.Lane,
		ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID, LeaseEpoch: l.claimed.LeaseEpoch,
		AttemptID: l.claimed.AttemptID,
	}
	return c.giveUp(l, engine.OutcomeSuspended, "lifecycle_phase", "runnable", func(ctx context.Context) error {
		_, err := c.session.Backend.MoveToWaitingChildren(ctx, call)
		return err
	})
}

// heldWait is a wait that a program begins for an execution that it holds, and the ids of its records.
type heldWait struct {
	wait       activityspec.Wait
	condition  []byte
	suspension enginecore.SuspensionID
	waitpoint  enginecore.WaitpointID
}

func newHeldWait(w activityspec.Wait, condition []byte) *heldWait {
	return &heldWait{
		wait: w, condition: condition, suspension: enginecore.SuspensionID(uuid.NewString()),
		waitpoint: enginecore.WaitpointID(uuid.NewString()),
	}
}

// suspendHeld gives an execution up until signals arrive. The report has the token of the waitpoint.
func (c *completer) suspendHeld(l *lease, w *heldWait) report {
	call := enginerpc.SuspendExecutionCall{
		WorkerInstanceID: c.instance, LaneID: l.shard.Lane, ExecutionID: l.claimed.ExecutionID,
		AttemptIndex: l.claimed.AttemptIndex, AttemptID: l.claimed.AttemptID, LeaseID: l.claimed.LeaseID,
		LeaseEpoch: l.claimed.LeaseEpoch, SuspensionID: w.suspension, WaitpointID: w.waitpoint,
		WaitpointKey: submit.WaitpointKey(w.waitpoint), ReasonCode: "waiting_for_signal", RequestedBy: sourceWorker,
		ResumeConditionJSON: w.condition, ResumePolicyJSON: []byte("{}"),
		TimeoutBehavior: submit.TimeoutBehaviors[w.wait.OnTimeout],
	}
	var signature string
	err := c.untilKnown(l, func(ctx context.Context, repeated bool) error {
		if w.wait.Timeout > 0 && call.TimeoutAt.IsZero() {
			now, err := c.session.Core.Now(ctx)
			if err != nil {
				return err
			}
			call.TimeoutAt = now.Add(w.wait.Timeout)
		}
		return c.session.Secrets.With(ctx, l.shard.Partition, func() error {
			reply, err := c.session.Backend.SuspendExecution(ctx, call)
			signature = reply.WaitpointToken
			if repeated && isFence(err) {
				signature, err = c.tokenOfLostReply(ctx, l, w.waitpoint, err)
			}
			return err
		})
	})
	r := reportOf(engine.OutcomeSuspended, err)
	if err == nil {
		r.token, r.err = engine.SealToken(l.claimed.ExecutionID, w.waitpoint, signature)
	}
	return r
}

// tokenOfLostReply returns the token of the waitpoint of a suspension that was sent again and refused. If the waitpoint
// is there, a call before has made it and suspended the execution, whether or not the wait is over by now, and only its
// reply was lost. Otherwise the refusal is the error.
func (c *completer) tokenOfLostReply(
	ctx context.Context, l *lease, id enginecore.WaitpointID, refusal error,
) (string, error) {
	key := c.session.Core.Keys().WaitpointRecord(l.shard.Partition, id)
	token, err := c.session.Client.Do(ctx,
		c.session.Client.B().Hget().Key(key).Field("waitpoint_token").Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", refusal
	}
	if err != nil {
		return "", engine.ReadError(ctx, "read the waitpoint", err)
	}
	return token, nil
}

// reportOf returns the report of a call that gives a lease up. A refusal that leaves the lease as it is does not end
// the attempt.
func reportOf(metric string, err error) report {
	switch {
	case err == nil:
		return report{metric: metric}
	case isFence(err) || engine.IsUnavailable(err) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled):
		return report{metric: engine.OutcomeNotCommitted, err: err}
	}
	return report{refused: err}
}

// hasEnded reports whether a refusal shows that this same lease has been given up before, in the state that a detail of
// the refusal names, so that only the reply was lost.
func (l *lease) hasEnded(err error, detail, state string) bool {
	refusal, ok := errors.AsType[*enginecore.Error](err)
	return ok && refusal.Code == enginecore.ErrExecutionNotActive && refusal.Detail(detail) == state &&
		refusal.Detail("attempt_id") == string(l.claimed.AttemptID) &&
		refusal.Detail("lease_epoch") == strconv.FormatInt(int64(l.claimed.LeaseEpoch), 10)
}
