package runtime

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Pause keeps the nodes of the run from starting until Resume. Running functions, delays, signals and the deadline of
// the run continue. Pausing a paused run is not an error, and changes neither its reason nor its actor. The reason
// follows the rules of Cancel. The error wraps ErrInvalid, ErrNotFound, ErrOver when the run has ended, or in
// contract mode ErrNotInContract.
func (r *RunRef) Pause(ctx context.Context, reason string, opts ...ActionOption) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.Pause, "", func(ctx context.Context, r *RunRef) error {
			return r.Pause(ctx, reason, opts...)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	by, err := r.client.actionOf(opts)
	err = errors.Join(err, engine.CheckReason(reason))
	if err == nil {
		_, err = r.client.session.Core.PauseFlow(ctx,
			enginerpc.PauseFlowCall{Partition: r.partition, FlowID: r.flowID, Reason: reason, Actor: by.actor})
	}
	if err != nil {
		return r.errorf("pause", runFault(err))
	}
	return nil
}

// Resume ends the pause of the run. Resuming a run that is not paused is not an error. Resume makes the nodes of a
// large run eligible in several calls; after an error, repeat it. The error is one of Pause.
func (r *RunRef) Resume(ctx context.Context, opts ...ActionOption) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.Resume, "", func(ctx context.Context, r *RunRef) error {
			return r.Resume(ctx, opts...)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	by, err := r.client.actionOf(opts)
	if err != nil {
		return r.errorf("resume", err)
	}
	call := enginerpc.ResumeFlowCall{Partition: r.partition, FlowID: r.flowID, Actor: by.actor}
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
