package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

// suspensionIn is the request to suspend that is in an error, nil when there is none.
func suspensionIn(err error) *activitycontext.Suspension {
	s, _ := errors.AsType[*activitycontext.Suspension](err)
	return s
}

// checkSuspension tells of a function that was told to return the error of Await and returned something else. It would
// have gone on as if the signal had come.
func (e *execution) checkSuspension(err error) error {
	waiting := e.waiting.Load()
	if waiting == nil || suspensionIn(err) != nil {
		return err
	}
	if err == nil {
		return activity.NonRetryable(fmt.Errorf("%w: it waits at %q, but the function returned without an error", activity.ErrAwaitIgnored,
			waiting.Step))
	}
	return activity.NonRetryable(fmt.Errorf("%w: it waits at %q, but the function returned: %w", activity.ErrAwaitIgnored, waiting.Step, err))
}

// suspend puts the execution aside until its signals come and asks for the next execution of the same spot. When they have
// come already, the function is to run again at once.
func (t *task) suspend(s *activitycontext.Suspension, wantNext bool) (next *task, again bool) {
	call := t.suspension(s, wantNext)
	for {
		ctx, cancel := t.reporting()
		sentAt := time.Now()
		var reply enginecore.SuspendReply
		err := t.shift.session.secrets.with(ctx, t.shard.partition, func() (err error) {
			reply, err = t.shift.core.Suspend(ctx, call)
			return err
		})
		failure := stepError(ctx, err)
		cancel()
		switch {
		case err == nil && reply.Status == enginecore.StatusAlreadySatisfied:
			return nil, t.goOn(s.Step, reply.Result)
		case err == nil:
			t.ended(outcomeSuspended)
			return t.handedOn(enginecore.CompleteReply{Remaining: reply.Remaining, Executions: reply.Executions, Candidates: reply.Candidates}, sentAt), false
		case t.mayRepeat(err):
			call.Repeated = true
		case isFence(err) || engineAway(err):
			t.unsure.Store(true)
			t.ended(outcomeNotCommitted)
			t.log(slog.LevelWarn, eventSuspensionLost, "execution was not suspended", slog.Any("error", err))
			return nil, false
		default:
			err = fmt.Errorf("await %q: %w", s.Step, failure)
			t.log(slog.LevelWarn, eventAttemptFailed, "attempt failed", slog.Any("error", err), slog.String("category", activity.CategoryOf(err)))
			t.fail(err)
			return nil, false
		}
	}
}

func (t *task) suspension(s *activitycontext.Suspension, wantNext bool) enginecore.SuspendCall {
	count := 0
	if wantNext && !t.shift.queue.isClosed() {
		count = 1
	}
	id := uuid.NewString()
	return enginecore.SuspendCall{
		Partition: t.shard.partition, ExecutionID: t.claimed.ExecutionID, LeaseID: t.claimed.LeaseID,
		LeaseEpoch: t.claimed.LeaseEpoch, AttemptID: t.claimed.AttemptID, Step: s.Step, SuspensionID: enginecore.SuspensionID(id),
		WaitpointKey: waitpointKey(enginecore.WaitpointID(id)), Condition: conditionOf(s.Wait), Timeout: s.Wait.Timeout,
		TimeoutBehavior: timeoutBehaviors[activity.TimeoutBehavior(s.Wait.OnTimeout)], Collect: s.Wait.Collect,
		ClaimRequest: t.shift.claimRequest(t.shard.lane, count),
	}
}

// goOn lets the function run again, with what its wait has brought, unless the attempt is to end anyway.
func (t *task) goOn(step string, brought []byte) bool {
	t.journal.put(awaitEntry+step, brought)
	return t.runAgain()
}

// runAgain lets the task run again, unless the attempt is to end anyway.
func (t *task) runAgain() bool {
	// Whoever ended the context meanwhile has left the report to this task.
	t.settled.Store(false)
	if t.ctx.Err() == nil {
		return true
	}
	if errors.Is(context.Cause(t.ctx), ErrStopping) && t.settle() {
		t.giveBack()
	}
	return false
}
