package worker

import (
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

// suspensionIn returns the suspension in an error's chain, nil if there is none.
func suspensionIn(err error) *activitycontext.Suspension {
	s, _ := errors.AsType[*activitycontext.Suspension](err)
	return s
}

// checkSuspension returns activity.ErrAwaitIgnored if Await returned a suspension to the function and the
// function did not return it. Such a function would have continued as if the signal had arrived.
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
