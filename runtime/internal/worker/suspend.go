package worker

import (
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

// suspensionIn is the request to suspend that is in an error, nil when there is none.
func suspensionIn(err error) *activitycontext.Suspension {
	s, _ := errors.AsType[*activitycontext.Suspension](err)
	return s
}

// checkSuspension tells of a function that was told to return the error of Await and returned something else. It would
// have gone on as if the signal had come.
func (e *execution) checkSuspension(err error) error {
	waiting := e.waiting.Load()
	if waiting == nil || suspensionIn(err) != nil {
		return err
	}
	if err == nil {
		return activity.NonRetryable(fmt.Errorf("%w: it waits at %q, but the function returned without an error", activity.ErrAwaitIgnored,
			waiting.Step))
	}
	return activity.NonRetryable(fmt.Errorf("%w: it waits at %q, but the function returned: %w", activity.ErrAwaitIgnored, waiting.Step, err))
}
