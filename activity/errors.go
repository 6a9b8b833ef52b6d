package activity

import (
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// ErrInvalid matches, by errors.Is, the faults that Err of an activity returns, and the errors of wrong calls in a
// function: a call with an invalid amount, live value or budget dimension; a call under a name that another call still
// uses; a wait or a sleep within the function of a step. If the function returns an error of one of the last two kinds,
// its node fails without another attempt.
var ErrInvalid = activityspec.ErrInvalid

// declarationError is the error returned by Err of an activity. It matches ErrInvalid.
type declarationError struct {
	Activity string // its name as declared, may be empty
	Err      error  // every fault, joined
}

// Error names the activity and lists the faults.
func (e *declarationError) Error() string {
	return fmt.Sprintf("%v %q: %v", ErrInvalid, e.Activity, e.Err)
}

// Unwrap returns ErrInvalid and the faults.
func (e *declarationError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

// NonRetryable marks err so that the attempt is the last one, whatever the retry policy. The text is unchanged, and
// errors.Is and errors.As find err. NonRetryable(nil) is nil.
func NonRetryable(err error) error {
	if err == nil {
		return nil
	}
	return &activityspec.NonRetryable{Err: err}
}

// RetryAfter marks err so that the next attempt, if the policy allows one, is delayed by d instead of the policy's
// delay. d is rounded up to whole milliseconds; negative is 0, at once. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &activityspec.RetryAfter{Err: err, Delay: activityspec.Milliseconds(max(0, d))}
}

// CancelNode returns the error by which a function ends its node as cancelled, without another attempt, for a reason
// that the record keeps. The effect is the same as when a client cancels the node. The function must return the error,
// as it is or wrapped.
func CancelNode(reason string) error { return &activityspec.Cancellation{Reason: reason} }

// DelayUntil returns the error by which a function gives its slot up and runs again, from its beginning, at a time of
// the engine's clock, possibly on another worker; at once if the time has passed. That spends no attempt of the retry
// policy, and Step returns the results recorded before. The function must return the error, as it is or wrapped.
//
// A time after the year 9999 or before the year 1 is none: the attempt fails then, without another one. Return the
// error of CancelNode for a node that must not run again.
func DelayUntil(t time.Time) error {
	if err := recordtext.CheckTime(t); err != nil {
		return NonRetryable(fmt.Errorf("delay until %w", err))
	}
	return &activityspec.Postponement{Until: t}
}

// maxCategory is the maximum length of a category, in bytes.
const maxCategory = 128

// Category marks err with a category that you choose, such as "quota", which is stored with the failure. An empty name
// changes nothing. The outermost mark applies. Without one, the category is "panic", "timeout", "decode" for an input
// or "encode" for a result that the codec refuses, "budget" for a *BudgetError, or "error". Category(nil, name) is nil.
//
// No name is refused, so that every failure can be recorded: control characters and invalid UTF-8 are escaped, and a
// name of more than 128 bytes is truncated and ends in "…".
func Category(err error, name string) error {
	if err == nil || name == "" {
		return err
	}
	return &activityspec.Categorized{Err: err, Name: recordtext.Line(name, maxCategory)}
}
