package activityspec

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Cancellation is the error of a function that ends its node as cancelled.
type Cancellation struct{ Reason string }

// Error returns a text with the reason.
func (e *Cancellation) Error() string { return "the activity cancels its node: " + e.Reason }

// Postponement is the error of a function that is to run again at a time, without spending an attempt.
type Postponement struct{ Until time.Time }

// Error returns a text with the time.
func (e *Postponement) Error() string {
	return fmt.Sprintf("the activity is delayed until %s", e.Until.UTC().Format(time.RFC3339Nano))
}

// Continuation is the error of a function that continues as new with a state.
type Continuation struct {
	State any
	// Type is the type of the state. It must equal the type of the function's input.
	Type reflect.Type
}

// Error returns a text with the type of the state.
func (c *Continuation) Error() string {
	return fmt.Sprintf("the activity goes on as new, with a state of type %s", c.Type)
}

// RetryAfter is an error with the time that a retry waits.
type RetryAfter struct {
	Err   error
	Delay time.Duration
}

// Error is the text of the marked error.
func (e *RetryAfter) Error() string { return e.Err.Error() }

// Unwrap returns the marked error.
func (e *RetryAfter) Unwrap() error { return e.Err }

// RetryDelay returns the delay of the outermost RetryAfter in err, in whole milliseconds, and false when there is none.
func RetryDelay(err error) (time.Duration, bool) {
	var mark *RetryAfter
	if !errors.As(err, &mark) {
		return 0, false
	}
	return mark.Delay, true
}
