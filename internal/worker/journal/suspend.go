package journal

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
)

// CheckSuspension returns activity.ErrAwaitIgnored if Await returned a suspension to the function and the
// function did not return it. Such a function would have continued as if the signal had arrived.
func (r *Recorder) CheckSuspension(err error) error {
	waiting := r.waiting.Load()
	if waiting == nil || completion.SuspensionIn(err) != nil {
		return err
	}
	if err == nil {
		return activity.NonRetryable(fmt.Errorf("%w: it waits at %q, but the function returned without an error",
			activity.ErrAwaitIgnored,
			waiting.Step))
	}
	return activity.NonRetryable(fmt.Errorf("%w: it waits at %q, but the function returned: %w",
		activity.ErrAwaitIgnored, waiting.Step, err))
}
