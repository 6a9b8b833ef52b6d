package worker

import (
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/submit"
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
	// outcomeKindCancelled: the function, or the program that holds the task, ends the execution as cancelled.
	outcomeKindCancelled
	// outcomeKindDelayed: the attempt continues at a later time.
	outcomeKindDelayed
	// outcomeKindAwaitsChildren: the attempt continues when all dependencies are satisfied.
	outcomeKindAwaitsChildren
	// outcomeKindAwaitsSignals: the execution, whose task a program holds, waits for signals.
	outcomeKindAwaitsSignals
	// outcomeKindContinued: the function goes on as new.
	outcomeKindContinued
	// outcomeKindSkipped: the child run of the node has succeeded without a result, so the node is skipped.
	outcomeKindSkipped
)

// attemptOutcome describes how an attempt ended.
type attemptOutcome struct {
	kind       outcomeKind
	result     []byte                      // set for outcomeKindCompleted
	err        error                       // error of the function or of the attempt
	stack      string                      // of a function that panicked
	suspension *activitycontext.Suspension // set for outcomeKindSuspended
	child      *childWait                  // set for outcomeKindAwaitsChild
	reason     string                      // set for outcomeKindReleased and outcomeKindCancelled
	until      time.Time                   // set for outcomeKindDelayed
	wait       *heldWait                   // set for outcomeKindAwaitsSignals
	next       *continuation               // set for outcomeKindContinued
	skipped    *resultSkipped              // set for outcomeKindSkipped
}

// reasonStopped is the reason of a release because the worker stops.
const reasonStopped = "the worker stopped"

// released returns the outcome of an attempt whose execution is returned for a reason.
func released(reason string) attemptOutcome {
	return attemptOutcome{kind: outcomeKindReleased, reason: reason}
}

// spanError returns the error for the span of the attempt; nil for an attempt that waits or whose node is skipped.
func (o *attemptOutcome) spanError() error {
	if o.suspension != nil || o.child != nil || o.next != nil || o.skipped != nil || o.kind == outcomeKindDelayed {
		return nil
	}
	return o.err
}

// childWait is the error of an attempt whose execution waits for a child run.
type childWait struct {
	id   enginecore.FlowID
	name string
}

// Error describes what the node waits for.
func (w *childWait) Error() string { return submit.ChildWaitPrefix + w.name }

// childWaitIn returns the childWait in an error's chain, nil if there is none.
func childWaitIn(err error) *childWait {
	w, _ := errors.AsType[*childWait](err)
	return w
}

// suspensionIn returns the suspension in an error's chain, nil if there is none.
func suspensionIn(err error) *activitycontext.Suspension {
	s, _ := errors.AsType[*activitycontext.Suspension](err)
	return s
}

// markedOutcome returns the outcome that an error asks for by a mark of package activity, and reports whether it has
// one: the suspension of Await, CancelNode, DelayUntil, or a budget that the execution waits for.
func markedOutcome(err error) (o attemptOutcome, marked bool) {
	o.err = err
	if s := suspensionIn(err); s != nil {
		o.kind, o.suspension = outcomeKindSuspended, s
	} else if next := continuationIn(err); next != nil {
		o.kind, o.next = outcomeKindContinued, next
	} else if mark, found := errors.AsType[*activityspec.Cancellation](err); found {
		o.kind, o.reason = outcomeKindCancelled, mark.Reason
	} else if mark, found := errors.AsType[*activityspec.Postponement](err); found {
		o.kind, o.until = outcomeKindDelayed, mark.Until
	} else if waitsForBudget(err) {
		o.kind, o.reason = outcomeKindReleased, "it waits for a budget"
	} else if err == errNoRoom { // no function returns it
		o.kind, o.reason, o.err = outcomeKindReleased, reasonNoRoom, nil
	}
	return o, o.kind != outcomeKindDropped
}

// waitsForBudget reports whether a function ended because its node has to wait for a budget.
func waitsForBudget(err error) bool {
	var exceeded *activity.BudgetError
	return errors.As(err, &exceeded) && exceeded.Waits
}
