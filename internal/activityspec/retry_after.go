package activityspec

import (
	"errors"
	"time"
)

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
