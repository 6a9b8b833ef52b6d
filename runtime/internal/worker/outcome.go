package worker

import (
	"context"
	"errors"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// outcomeKind is what the engine is told at the end of an attempt.
type outcomeKind int

const (
	// outcomeKindDropped: nothing is reported. The engine has ended the execution, or the lease is lost.
	outcomeKindDropped outcomeKind = iota
	// outcomeKindCompleted: the function has returned a result.
	outcomeKindCompleted
	// outcomeKindFailed: the attempt has failed; the engine decides by the stored policy whether another one follows.
	outcomeKindFailed
	// outcomeKindSuspended: the execution waits for signals.
	outcomeKindSuspended
	// outcomeKindAwaitsChild: the execution waits for a run of its own.
	outcomeKindAwaitsChild
	// outcomeKindReleased: the execution goes back unfinished; its attempt goes on with another worker.
	outcomeKindReleased
)

// attemptOutcome is how an attempt has ended.
type attemptOutcome struct {
	kind       outcomeKind
	result     []byte                      // of one that has completed
	err        error                       // what the function returned, or why the attempt failed
	suspension *activitycontext.Suspension // of one that is suspended
	child      *childWait                  // of one that waits for a run
	reason     string                      // of one that is released
}

const reasonStopped = "the worker stopped"

func released(reason string) attemptOutcome {
	return attemptOutcome{kind: outcomeKindReleased, reason: reason}
}

// outcomeOf says what the engine is to be told of an attempt whose function returned this.
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

// spanError is the error of an attempt that its span shows: that a function waits is none.
func (o *attemptOutcome) spanError() error {
	if o.suspension != nil || o.child != nil {
		return nil
	}
	return o.err
}

func (t *Task) logFailure(err error) {
	t.log(slog.LevelWarn, engine.EventAttemptFailed, "attempt failed", slog.Any("error", err), slog.String("category", activity.CategoryOf(err)))
}
