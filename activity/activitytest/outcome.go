package activitytest

import (
	"errors"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Suspended reports whether err wraps the error that activity.Await returns to suspend, and returns the name of the
// wait: the name given to Await, followed by "#2" and so on from the second call on.
func Suspended(err error) (step string, ok bool) {
	var s *activitycontext.Suspension
	if !errors.As(err, &s) {
		return "", false
	}
	return s.Step, true
}

// Continued reports whether err wraps the error of activity.ContinueAsNew, and returns its state.
func Continued[In any](err error) (state In, ok bool) {
	c, found := errors.AsType[*activityspec.Continuation](err)
	if !found {
		return state, false
	}
	state, ok = c.State.(In)
	return state, ok
}

// IsNonRetryable reports whether no attempt follows when a function returns err: it, or an error in it, was marked by
// activity.NonRetryable, is a *activity.BudgetError, or is an error of a codec.
func IsNonRetryable(err error) bool { return activityspec.IsNonRetryable(err) }

// CategoryOf returns the category that a failure has when a function returns err; empty for nil. See activity.Category.
func CategoryOf(err error) string { return activityspec.CategoryOf(err) }
