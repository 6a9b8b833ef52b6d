package completion

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Kind is the kind of report that ends an attempt.
type Kind int

const (
	// KindDropped: nothing is reported, because the engine has ended the execution or the lease is
	// lost.
	KindDropped Kind = iota
	// KindCompleted: the function returned a result.
	KindCompleted
	// KindFailed: the attempt failed; the engine decides by the stored policy whether another one
	// follows.
	KindFailed
	// KindSuspended: the execution waits for signals.
	KindSuspended
	// KindAwaitsChild: the execution waits for its child run.
	KindAwaitsChild
	// KindReleased: the execution is returned without its end, and another worker continues the
	// attempt.
	KindReleased
	// KindCancelled: the function, or the program that holds the task, ends the execution as cancelled.
	KindCancelled
	// KindDelayed: the attempt continues at a later time.
	KindDelayed
	// KindAwaitsChildren: the attempt continues when all dependencies are satisfied.
	KindAwaitsChildren
	// KindAwaitsSignals: the execution, whose task a program holds, waits for signals.
	KindAwaitsSignals
	// KindContinued: the function continues as new.
	KindContinued
	// KindSkipped: the child run of the node has succeeded without a result, so the node is skipped.
	KindSkipped
)

// String names the settlement in errors.
func (k Kind) String() string {
	switch k {
	case KindCompleted:
		return "it is completed"
	case KindFailed:
		return "it has failed"
	case KindReleased:
		return "it is released"
	case KindCancelled:
		return "it is cancelled"
	case KindDelayed:
		return "it is delayed"
	}
	return "it waits"
}

// Outcome describes how an attempt ended.
type Outcome struct {
	Kind       Kind
	Result     []byte                      // set for KindCompleted
	Err        error                       // error of the function or of the attempt
	Stack      string                      // of a function that panicked
	Suspension *activitycontext.Suspension // set for KindSuspended
	Child      *ChildWait                  // set for KindAwaitsChild
	Reason     string                      // set for KindReleased and KindCancelled
	Until      time.Time                   // set for KindDelayed
	Delay      time.Duration               // of KindReleased, until another worker may continue; 0 is at once
	Wait       *HeldWait                   // set for KindAwaitsSignals
	next       *Continuation               // set for KindContinued
	Skipped    *ResultSkipped              // set for KindSkipped
}

// ReasonNoRoom is the reason of a release because of a limit.
const ReasonNoRoom = "its limit has no room"

// Misfit ends an attempt that this worker cannot make, but another one perhaps can: the worker returns the execution,
// and the attempt does not count.
type Misfit struct {
	Reason string
	// Delay is the time until a worker may claim the execution again.
	Delay time.Duration
}

// Error is the reason.
func (m *Misfit) Error() string { return m.Reason }

// ErrNoRoom ends an attempt whose function may not begin, since a limit counts as many starts as it allows.
var ErrNoRoom = errors.New(ReasonNoRoom)

// ReasonStopped is the reason of a release because the worker stops.
const ReasonStopped = "the worker stopped"

// Released returns the outcome of an attempt whose execution is returned for a reason.
func Released(reason string) Outcome {
	return Outcome{Kind: KindReleased, Reason: reason}
}

// SpanError returns the error for the span of the attempt; nil for an attempt that waits or whose node is skipped.
func (o *Outcome) SpanError() error {
	if o.Suspension != nil || o.Child != nil || o.next != nil || o.Skipped != nil || o.Kind == KindDelayed {
		return nil
	}
	return o.Err
}

// SuspensionIn returns the suspension in an error's chain, nil if there is none.
func SuspensionIn(err error) *activitycontext.Suspension {
	s, _ := errors.AsType[*activitycontext.Suspension](err)
	return s
}

// Marked returns the outcome that an error requests by a mark of package activity, and reports whether it has one: the
// suspension of Await, CancelNode, DelayUntil, or a budget that the execution waits for.
func Marked(err error) (o Outcome, marked bool) {
	o.Err = err
	if s := SuspensionIn(err); s != nil {
		o.Kind, o.Suspension = KindSuspended, s
	} else if next := continuationIn(err); next != nil {
		o.Kind, o.next = KindContinued, next
	} else if mark, found := errors.AsType[*activityspec.Cancellation](err); found {
		o.Kind, o.Reason = KindCancelled, mark.Reason
	} else if mark, found := errors.AsType[*activityspec.Postponement](err); found {
		o.Kind, o.Until = KindDelayed, mark.Until
	} else if misfit, found := errors.AsType[*Misfit](err); found {
		o.Kind, o.Reason, o.Delay, o.Err = KindReleased, misfit.Reason, misfit.Delay, nil
	} else if waitsForBudget(err) {
		o.Kind, o.Reason = KindReleased, "it waits for a budget"
	} else if err == ErrNoRoom { // no function returns it
		o.Kind, o.Reason, o.Err = KindReleased, ReasonNoRoom, nil
	}
	return o, o.Kind != KindDropped
}

// waitsForBudget reports whether a function ended because its node has to wait for a budget.
func waitsForBudget(err error) bool {
	var exceeded *activity.BudgetError
	return errors.As(err, &exceeded) && exceeded.Waits
}

// Undecodable marks an error as not retryable, with the category of decoding errors.
func Undecodable(err error) error {
	return activity.NonRetryable(activity.Category(err, activityspec.CategoryDecode))
}

// Final returns a failure of a category that is not retried.
func Final(category, format string, args ...any) error {
	return activity.NonRetryable(activity.Category(fmt.Errorf(format, args...), category))
}
