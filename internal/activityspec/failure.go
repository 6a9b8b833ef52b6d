package activityspec

import (
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/errordetail"
)

// Categories of failures for which the function sets none.
const (
	CategoryError   = "error"   // an ordinary error of the function
	CategoryPanic   = "panic"   // the function panicked, or ended its goroutine
	CategoryTimeout = "timeout" // the attempt took too long or missed its heartbeats
	CategoryDecode  = "decode"  // the input does not decode; not retried
	CategoryEncode  = "encode"  // the result does not encode; not retried
	CategoryBudget  = "budget"  // a budget was exceeded; not retried
	// CategoryRejected is the category of an approval that a person rejected; not retried.
	CategoryRejected = "rejected"
)

var (
	// ErrInvalid matches the errors of declarations, and of calls within functions whose arguments cannot be used.
	ErrInvalid = errors.New("invalid activity")
	// ErrBudgetExceeded matches an *activity.BudgetError.
	ErrBudgetExceeded error = errordetail.NewSentinel("flowfabric.budget_exceeded", "budget exceeded")
	// ErrUnknownDimension is returned for a dimension that none of the run's budgets has.
	ErrUnknownDimension = errordetail.NewSentinelOf(ErrInvalid, "flowfabric.unknown_dimension",
		"no budget of the run has the dimension")
	// ErrUsage marks an invalid amount, dimension or key.
	ErrUsage = errordetail.NewSentinelOf(ErrInvalid, "flowfabric.usage", "bad usage")
	// ErrLiveValue marks a key or a value that cannot be published.
	ErrLiveValue = errordetail.NewSentinelOf(ErrInvalid, "flowfabric.live_value", "bad live value")
	// ErrNameInUse is returned by a call that records something under a name while another one with that name has not
	// returned: which of them is the first would be another one in each run of the function.
	ErrNameInUse = errordetail.NewSentinelOf(ErrInvalid, "flowfabric.name_in_use",
		"another call with this name has not returned: give each its own name, or start steps with activity.Go")
	// ErrInStep is returned within the function of a step by functions that cannot work there.
	ErrInStep = errordetail.NewSentinelOf(ErrInvalid, "flowfabric.in_step", "called within the function of a step")
)

// DecodeError means that an input cannot be decoded into the function's input type.
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

// EncodeError means that a result cannot be encoded.
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

// NonRetryable marks an error after which no attempt follows.
type NonRetryable struct{ Err error }

// Error is the text of the marked error.
func (e *NonRetryable) Error() string { return e.Err.Error() }

// Unwrap returns the marked error.
func (e *NonRetryable) Unwrap() error { return e.Err }

// Categorized marks an error with a category.
type Categorized struct {
	Err  error
	Name string
}

// Error is the text of the marked error.
func (e *Categorized) Error() string { return e.Err.Error() }

// Unwrap returns the marked error.
func (e *Categorized) Unwrap() error { return e.Err }

// IsNonRetryable reports whether no attempt follows a failure, whatever the retry policy.
func IsNonRetryable(err error) bool {
	var mark *NonRetryable
	var decode *DecodeError
	var encode *EncodeError
	return errors.As(err, &mark) || errors.As(err, &decode) || errors.As(err, &encode) ||
		errors.Is(err, ErrBudgetExceeded)
}

// CategoryOf returns the category of a failure: the one that it is marked with, else the one of the library. For nil it
// returns "".
func CategoryOf(err error) string {
	var mark *Categorized
	var decode *DecodeError
	var encode *EncodeError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &mark):
		return mark.Name
	case errors.As(err, &decode):
		return CategoryDecode
	case errors.As(err, &encode):
		return CategoryEncode
	case errors.Is(err, ErrBudgetExceeded):
		return CategoryBudget
	default:
		return CategoryError
	}
}
