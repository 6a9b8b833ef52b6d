package worker

import (
	"context"
	"errors"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// outcomeKind is the kind of report that ends an attempt.
type outcomeKind int

const (
	// outcomeKindDropped: nothing is reported, because the engine has ended the execution or the lease is
	// lost.
	outcomeKindDropped outcomeKind = iota
	// outcomeKindCompleted: the function returned a result.
	outcomeKindCompleted
	// outcomeKindFailed: the attempt failed; the engine decides by the stored policy whether another one
	// follows.
	outcomeKindFailed
	// outcomeKindSuspended: the execution waits for signals.
	outcomeKindSuspended
	// outcomeKindAwaitsChild: the execution waits for its child run.
	outcomeKindAwaitsChild
	// outcomeKindReleased: the execution is returned without its end, and another worker continues the
	// attempt.
	outcomeKindReleased
)

// attemptOutcome describes how an attempt ended.
type attemptOutcome struct {
	kind       outcomeKind
	result     []byte                      // set for outcomeKindCompleted
	err        error                       // error of the function or of the attempt
	suspension *activitycontext.Suspension // set for outcomeKindSuspended
	child      *childWait                  // set for outcomeKindAwaitsChild
	reason     string                      // set for outcomeKindReleased
}

// reasonStopped is the reason of a release because the worker stops.
const reasonStopped = "the worker stopped"

// released returns the outcome of an attempt whose execution is returned for a reason.
func released(reason string) attemptOutcome {
	return attemptOutcome{kind: outcomeKindReleased, reason: reason}
}

// outcomeOf settles the attempt and returns the outcome to report for the function's result and error.
func (t *Task) outcomeOf(result []byte, err error) attemptOutcome {
	dropped := attemptOutcome{err: err}
	mayReport := t.settle()
	cause := context.Cause(t.ctx)
	switch {
	case errors.Is(cause, engine.ErrLeaseLost):
		t.OutcomeUnknown.Store(true)
		t.ended(engine.OutcomeLeaseLost)
		t.log(slog.LevelWarn, engine.EventLeaseLost, "lease lost, the result of the attempt is dropped",
			slog.Any("cause", cause), slog.Any("error", err))
		return dropped
	case !mayReport:
		t.ended(engine.OutcomeEndedByEngine)
		t.log(slog.LevelDebug, engine.EventAttemptEnded, "attempt ended without a report, the engine had ended it", slog.Any("cause", cause))
		return dropped
	case err == nil:
		return attemptOutcome{kind: outcomeKindCompleted, result: result}
	case suspensionIn(err) != nil:
		return attemptOutcome{kind: outcomeKindSuspended, err: err, suspension: suspensionIn(err)}
	case childWaitIn(err) != nil:
		return attemptOutcome{kind: outcomeKindAwaitsChild, err: err, child: childWaitIn(err)}
	case errors.Is(cause, engine.ErrStopping):
		return attemptOutcome{kind: outcomeKindReleased, err: err, reason: reasonStopped}
	case waitsForBudget(err):
		t.log(slog.LevelInfo, engine.EventBudgetWait, "attempt waits for a budget", slog.Any("error", err))
		return attemptOutcome{kind: outcomeKindReleased, err: err, reason: "it waits for a budget"}
	case errors.Is(err, engine.ErrDeadline):
		t.ended(engine.OutcomeEndedByEngine)
		t.log(slog.LevelInfo, engine.EventAttemptDeadline, "attempt ended by the deadline of the run")
		return dropped
	case errors.Is(err, engine.ErrStartToClose):
		err = activity.Category(err, activity.CategoryTimeout)
	}
	t.logFailure(err)
	return attemptOutcome{kind: outcomeKindFailed, err: err}
}

// spanError returns the error for the span of the attempt; nil for an attempt that suspended.
func (o *attemptOutcome) spanError() error {
	if o.suspension != nil || o.child != nil {
		return nil
	}
	return o.err
}

// logFailure logs the failure of the attempt with its category.
func (t *Task) logFailure(err error) {
	t.log(slog.LevelWarn, engine.EventAttemptFailed, "attempt failed", slog.Any("error", err), slog.String("category", activity.CategoryOf(err)))
}
