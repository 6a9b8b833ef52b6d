package runtime

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// reportPause is the time between two tries to report while the engine is away.
const reportPause = 100 * time.Millisecond

// report tells the engine how the attempt ended and returns the next task when one was handed on, or that the function is
// to run again at once.
func (t *task) report(ctx context.Context, result []byte, err error, wantNext bool) (next *task, again bool) {
	if !t.settle() {
		lost := errors.Is(context.Cause(t.ctx), ErrLeaseLost)
		t.unsure.CompareAndSwap(false, lost)
		if lost {
			t.ended(outcomeLeaseLost)
			t.logLeaseLost(err)
			return nil, false
		}
		t.ended(outcomeEndedByEngine)
		t.log(slog.LevelDebug, eventAttemptEnded, "attempt ended without a report, the engine had ended it", slog.Any("cause", context.Cause(t.ctx)))
		return nil, false
	}
	cause := context.Cause(t.ctx)
	switch {
	case errors.Is(cause, ErrLeaseLost):
		t.unsure.Store(true)
		t.ended(outcomeLeaseLost)
		t.logLeaseLost(err)
		return nil, false
	case err == nil:
		return t.complete(result, wantNext), false
	case suspensionIn(err) != nil:
		return t.suspend(suspensionIn(err), wantNext)
	case childWaitIn(err) != nil:
		return t.awaitChild(childWaitIn(err), wantNext)
	case errors.Is(cause, ErrStopping):
		t.giveBack()
		return nil, false
	case waitsForBudget(err):
		t.log(slog.LevelInfo, eventBudgetWait, "attempt waits for a budget", slog.Any("error", err))
		t.giveBackFor("it waits for a budget")
		return nil, false
	case errors.Is(err, ErrDeadline):
		t.ended(outcomeEndedByEngine)
		t.log(slog.LevelInfo, eventAttemptDeadline, "attempt ended by the deadline of the run")
		return nil, false
	}
	if errors.Is(err, ErrStartToClose) {
		err = activity.Category(err, activity.CategoryTimeout)
	}
	t.log(slog.LevelWarn, eventAttemptFailed, "attempt failed", slog.Any("error", err), slog.String("category", activity.CategoryOf(err)))
	t.fail(err)
	return nil, false
}

// logLeaseLost tells that the attempt ended without its lease: why it is lost, and what the function returned.
func (t *task) logLeaseLost(err error) {
	t.log(slog.LevelWarn, eventLeaseLost, "lease lost, the result of the attempt is dropped",
		slog.Any("cause", context.Cause(t.ctx)), slog.Any("error", err))
}

// reporting is the context of a call that reports an end: it lives as long as the lease does by now.
func (t *task) reporting() (context.Context, context.CancelFunc) {
	return context.WithDeadline(t.shift.base, t.leaseEnd())
}

// mayRepeat reports, after a pause, whether a report that failed is to be sent again: while the engine is away, as long as the
// lease lasts. Renewals extend it meanwhile, so that what a function brought is kept for as long as the engine keeps the lease.
func (t *task) mayRepeat(err error) bool {
	return engineAway(err) && t.shift.mayRepeat(t.leaseEnd())
}

// mayRepeat reports, after a pause, whether there is time for another try. The engine may know of leases by then of which the
// worker was not told.
func (s *shift) mayRepeat(until time.Time) bool {
	if !time.Now().Before(until) {
		return false
	}
	s.leases.doubt()
	pause(s.base, reportPause)
	return true
}

// complete commits the result and asks for the next execution of the same spot.
func (t *task) complete(result []byte, wantNext bool) *task {
	count := 0
	if wantNext && !t.shift.board.isClosed() {
		count = 1
	}
	if t.shift.commits == nil {
		return t.completeAlone(result, count, func() {})
	}
	return t.shift.commits.complete(t, result, count)
}

// completeAlone sends a completion and a claim of as many as count, again while the engine is away. sent is called when the
// engine has answered, or never will.
func (t *task) completeAlone(result []byte, count int, sent func()) *task {
	call := enginecore.CompleteCall{
		Partition: t.spot.partition, ExecutionID: t.claimed.ExecutionID, LeaseID: t.claimed.LeaseID,
		LeaseEpoch: t.claimed.LeaseEpoch, AttemptID: t.claimed.AttemptID, Result: result,
		ClaimRequest: t.shift.claimRequest(t.spot.lane, count),
	}
	begun := time.Now()
	for {
		ctx, cancel := t.reporting()
		sentAt := time.Now()
		reply, err := t.shift.session.calls.Complete(ctx, call)
		cancel()
		if err == nil {
			sent()
			t.committed(begun, outcomeSucceeded)
			return t.handedOn(reply, sentAt)
		}
		if !t.mayRepeat(err) {
			sent()
			t.unsure.Store(true)
			t.committed(begun, outcomeNotCommitted)
			t.log(slog.LevelWarn, eventResultLost, "result was not committed", slog.Any("error", err))
			return nil
		}
		call.Repeated = true
	}
}

// committed measures an attempt that brought a result, and how long it took to commit it.
func (t *task) committed(begun time.Time, outcome string) {
	t.ended(outcome)
	telemetry := t.shift.session.telemetry
	telemetry.record(t.shift.base, telemetry.commits, time.Since(begun), labels{"activity", t.claimed.Kind, outcome})
}

func engineAway(err error) bool {
	return errors.Is(err, enginecore.ErrOutcomeUnknown) || errors.Is(err, enginecore.ErrUnavailable)
}

func (t *task) handedOn(reply enginecore.CompleteReply, sentAt time.Time) *task {
	if reply.More {
		t.shift.drain.start(t.shift.base, t.spot.partition)
	}
	if reply.Remaining > 0 {
		t.shift.board.add(t.spot)
	}
	if len(reply.Executions) == 0 && len(reply.Candidates) > 0 {
		return t.shift.admitNext(t, reply.Candidates)
	}
	if len(reply.Candidates) > 0 {
		t.shift.errands.start(func() { t.shift.admit(t.spot.lane, reply.Candidates, 0) })
	}
	if len(reply.Executions) == 0 {
		return nil
	}
	return newTask(t.shift, t.spot, reply.Executions[0], sentAt)
}

// fail reports a failed attempt. The engine decides by the stored policy whether another one follows.
func (t *task) fail(failure error) {
	call := enginecore.FailCall{
		Partition: t.spot.partition, ExecutionID: t.claimed.ExecutionID, LeaseID: t.claimed.LeaseID,
		LeaseEpoch: t.claimed.LeaseEpoch, AttemptID: t.claimed.AttemptID, AttemptIndex: t.claimed.AttemptIndex,
		Reason: recordtext.Text(failure.Error(), MaxReason), Category: activity.CategoryOf(failure),
		Retryable: !activity.IsNonRetryable(failure), JitterPermille: rand.Int64N(1001),
	}
	if delay, ok := activityspec.RetryDelay(failure); ok {
		call.RetryAfter = max(delay, time.Millisecond)
	}
	for {
		ctx, cancel := t.reporting()
		reply, err := t.shift.session.calls.Fail(ctx, call)
		cancel()
		if err == nil {
			if reply.More {
				t.shift.drain.start(t.shift.base, t.spot.partition)
			}
			t.ended(outcomeOfFailure(reply))
			return
		}
		if !t.mayRepeat(err) {
			t.unsure.Store(true)
			t.ended(outcomeNotCommitted)
			t.log(slog.LevelWarn, eventFailureLost, "failure was not recorded", slog.Any("error", err))
			return
		}
	}
}

// giveBack returns the execution unfinished; its attempt goes on with another worker.
func (t *task) giveBack() { t.giveBackFor("the worker stopped") }

func (t *task) giveBackFor(reason string) {
	t.ended(outcomeGivenBack)
	ctx, cancel := t.reporting()
	defer cancel()
	_, err := t.shift.session.calls.Release(ctx, enginecore.ReleaseCall{
		Partition: t.spot.partition, ExecutionID: t.claimed.ExecutionID, LeaseID: t.claimed.LeaseID,
		LeaseEpoch: t.claimed.LeaseEpoch, AttemptID: t.claimed.AttemptID, Reason: reason,
	})
	if err != nil {
		t.unsure.Store(true)
		t.log(slog.LevelWarn, eventReturnFailed, "execution was not given back, its lease runs out instead", slog.Any("error", err))
	}
}

func formatPercent(percent float64) string { return strconv.FormatFloat(percent, 'f', -1, 64) }
