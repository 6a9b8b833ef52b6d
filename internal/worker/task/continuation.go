package task

import (
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
)

// continued returns the continuation that the error of a function requests, or err if it requests none.
func (t *Task) continued(handler activity.Handler, generation int64, err error) error {
	asked, found := errors.AsType[*activityspec.Continuation](err)
	if !found {
		return err
	}
	if _, missing := engine.Capability[engine.Continuations](t.Run.Session.Backend); missing != nil {
		return activity.NonRetryable(fmt.Errorf("%w: activity.ContinueAsNew", missing))
	}
	if asked.Type != handler.InputType() {
		return activity.NonRetryable(fmt.Errorf("activity.ContinueAsNew got a state of type %s; activity %q takes %s",
			asked.Type, handler.Name(), handler.InputType()))
	}
	state, err := handler.Codec().Encode(asked.State)
	if err != nil {
		return completion.Final(activity.CategoryEncode, "activity.ContinueAsNew: state of type %s does not encode: %w",
			asked.Type, err)
	}
	return (&completion.Continuation{Generation: generation, State: state}).CheckState()
}
