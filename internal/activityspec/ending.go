package activityspec

import (
	"fmt"
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
