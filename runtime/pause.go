package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// Pause keeps the nodes of the run from starting until Resume. What runs goes on, and so do delays, signals and the
// run's deadline. Pausing a paused run is no error. The reason is as in Cancel; the error wraps ErrInvalid,
// ErrRunNotFound, ErrRunOver when the run is over, or in contract mode ErrNotInContract.
func (r *RunRef) Pause(ctx context.Context, reason string) error {
	if err := r.ready(); err != nil {
		return err
	}
	err := engine.CheckReason(reason)
	if err == nil {
		_, err = r.client.session.Core.PauseFlow(ctx,
			enginerpc.PauseFlowCall{Partition: r.partition, FlowID: r.flowID, Reason: reason})
	}
	if err != nil {
		return r.errorf("pause", runFault(err))
	}
	return nil
}

// Resume ends the pause of the run. A run that is not paused is no error. It makes a large run eligible in several
// calls; when one fails, repeat it. Its errors are those of Pause.
func (r *RunRef) Resume(ctx context.Context) error {
	if err := r.ready(); err != nil {
		return err
	}
	call := enginerpc.ResumeFlowCall{Partition: r.partition, FlowID: r.flowID}
	for {
		reply, err := r.client.session.Core.ResumeFlow(ctx, call)
		if err != nil {
			return r.errorf("resume", runFault(err))
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return nil
		}
	}
}
