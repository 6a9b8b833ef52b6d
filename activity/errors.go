package activity

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// ErrInvalid matches, by errors.Is, the errors returned by Err of an activity.
var ErrInvalid = errors.New("invalid activity")

// Categories of failures for which the function sets none by Category.
const (
	CategoryError   = "error"   // an ordinary error of the function
	CategoryPanic   = "panic"   // the function panicked, or ended its goroutine
	CategoryTimeout = "timeout" // the attempt took too long or missed its heartbeats
	CategoryDecode  = "decode"  // the input does not decode; not retried
	CategoryEncode  = "encode"  // the result does not encode; not retried
)

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

// DecodeError means that an input cannot be decoded into the function's input type. It is not retried, and its category
// is CategoryDecode.
type DecodeError struct {
	Activity string
	Type     string // the Go type of the target
	Codec    string
	Err      error
}

// Error names the activity, the codec and the type.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("activity %q: input does not decode from %s into %s: %v", e.Activity, e.Codec, e.Type, e.Err)
}

// Unwrap returns the codec's error.
func (e *DecodeError) Unwrap() error { return e.Err }

// EncodeError means that a result cannot be encoded. It is not retried, and its category is CategoryEncode.
type EncodeError struct {
	Activity string
	Type     string // the Go type of the result
	Codec    string
	Err      error
}

// Error names the activity, the codec and the type.
func (e *EncodeError) Error() string {
	return fmt.Sprintf("activity %q: result of type %s does not encode into %s: %v", e.Activity, e.Type, e.Codec, e.Err)
}

// Unwrap returns the codec's error.
func (e *EncodeError) Unwrap() error { return e.Err }

// NonRetryable marks err so that the attempt is the last one, whatever the retry policy. The text is unchanged, and
// errors.Is and errors.As find err. NonRetryable(nil) is nil.
func NonRetryable(err error) error {
	if err == nil {
		return nil
	}
	return &nonRetryable{err}
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
// changes nothing. The outermost mark applies. Category(nil, name) is nil.
//
// No name is refused, so that every failure can be recorded: control characters and invalid UTF-8 are escaped, and a
// name of more than 128 bytes is truncated and ends in "…".
func Category(err error, name string) error {
	if err == nil || name == "" {
		return err
	}
	return &categorized{err: err, name: recordtext.Line(name, maxCategory)}
}

// IsNonRetryable reports whether err, or an error in it, was marked by NonRetryable or is a *DecodeError, *EncodeError
// or *BudgetError.
func IsNonRetryable(err error) bool {
	var mark *nonRetryable
	var decode *DecodeError
	var encode *EncodeError
	var budget *BudgetError
	return errors.As(err, &mark) || errors.As(err, &decode) || errors.As(err, &encode) || errors.As(err, &budget)
}

// CategoryOf returns the name that err was marked with by Category, else CategoryDecode or CategoryEncode for the
// errors of Invoke and CategoryBudget for a *BudgetError, else CategoryError. For nil it returns "".
func CategoryOf(err error) string {
	var mark *categorized
	var decode *DecodeError
	var encode *EncodeError
	var budget *BudgetError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &mark):
		return mark.name
	case errors.As(err, &decode):
		return CategoryDecode
	case errors.As(err, &encode):
		return CategoryEncode
	case errors.As(err, &budget):
		return CategoryBudget
	default:
		return CategoryError
	}
}

type nonRetryable struct{ err error }

// Error is the text of the marked error.
func (e *nonRetryable) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e *nonRetryable) Unwrap() error { return e.err }

type categorized struct {
	err  error
	name string
}

// Error is the text of the marked error.
func (e *categorized) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e *categorized) Unwrap() error { return e.err }
