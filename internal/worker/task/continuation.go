package task

import (
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
)

// continued returns the continuation that the error of a function requests, or err if it requests none.
func (t *Task) continued(handler activity.Handler, generation int64, err error) error {
	asked, found := errors.AsType[*activityspec.Continuation](err)
	if !found {
		return err
	}
	if _, err := t.Run.Session.Library("activity.ContinueAsNew"); err != nil {
		return activity.NonRetryable(err)
	}
	if asked.Type != handler.InputType() {
		return activity.NonRetryable(fmt.Errorf("activity.ContinueAsNew got a state of type %s; activity %q takes %s",
			asked.Type, handler.Name(), handler.InputType()))
	}
	state, err := handler.Codec().Encode(asked.State)
	if err != nil {
		return completion.Final(activityspec.CategoryEncode, "activity.ContinueAsNew: state of type %s does not encode: %w",
			asked.Type, err)
	}
	return (&completion.Continuation{Generation: generation, State: state}).CheckState()
}
