package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// ActionOption adjusts an operation such as Cancel, Rerun or PauseLane. It is also a StartOption.
type ActionOption func(*action)

type action struct {
	actor string
	// request identifies the request if isNamed.
	request string
	isNamed bool
}

// start makes an ActionOption a StartOption.
func (o ActionOption) start(c *startConfig) bool {
	if o == nil {
		return false
	}
	a := action{actor: c.actor}
	o(&a)
	c.actor = a.actor
	return true
}

// WithActor names the person or program that starts the run or operates on it, or pauses a lane or an activity; the
// engine records the name. It has at most 256 bytes without control characters, otherwise the call returns ErrInvalid.
// Defaults to the actor of Client.As, then to "client" for operations, and to an empty name for Start.
func WithActor(actor string) ActionOption { return func(a *action) { a.actor = actor } }

// WithRequestID names the request of a call that has an effect each time, Rerun, TriggerSchedule or BackfillSchedule: a
// call that repeats the request has no effect, and returns the result of the first one. Use it to repeat a call whose
// outcome is not known. A run knows the request of its last rerun, a schedule the requests of its last 32 triggers and
// backfills. Other calls can be repeated anyway and ignore it; WithID does the same for Start. The id has 1 to 128
// bytes without control characters, otherwise the call returns ErrInvalid.
func WithRequestID(id string) ActionOption {
	return func(a *action) { a.request, a.isNamed = id, true }
}

// maxRequestID is the most bytes of the id of a request.
const maxRequestID = 128

func (c *Client) actionOf(opts []ActionOption) (action, error) {
	a := action{actor: c.actorName()}
	err := errors.Join(apply(&a, opts), engine.CheckText("actor", a.actor, engine.MaxActor),
		engine.CheckText("request id", a.request, maxRequestID))
	if a.isNamed && a.request == "" {
		err = errors.Join(err, invalid("request id: must not be empty"))
	}
	return a, err
}

// Cancel cancels the run: no further node starts, and the contexts of running activities end. It returns when every
// node was notified. If the call is interrupted, keepers complete the cancellation, or the call can be repeated.
// Cancelling a cancelled run is not an error.
//
// The reason has at most 2,048 bytes and no control characters; otherwise the error wraps ErrInvalid. It wraps
// ErrOver when the run has ended otherwise, and ErrNotFound when it does not exist.
func (r *RunRef) Cancel(ctx context.Context, reason string, opts ...ActionOption) error {
	return r.cancel(ctx, submit.CancelAll, reason, opts)
}

// CancelPending cancels the nodes that do not run. Running nodes may finish and keep their results, but get no further
// attempt; when the last of them has ended, the run is cancelled. Cancel may follow. The error is one of Cancel or, in
// contract mode, ErrNotInContract.
func (r *RunRef) CancelPending(ctx context.Context, reason string, opts ...ActionOption) error {
	return r.cancel(ctx, submit.CancelPending, reason, opts)
}

func (r *RunRef) cancel(ctx context.Context, policy, reason string, opts []ActionOption) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.Cancel, "", func(ctx context.Context, r *RunRef) error {
			return r.cancel(ctx, policy, reason, opts)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	by, err := r.client.actionOf(opts)
	if err = errors.Join(err, engine.CheckReason(reason)); err != nil {
		return r.errorf("cancel", err)
	}
	if policy != submit.CancelAll {
		if _, err := library(ctx, r.client, "cancelling single nodes"); err != nil {
			return r.errorf("cancel", err)
		}
	}
	err = submit.CancelRun(ctx, r.client.session, enginerpc.CancelFlowCall{
		Partition: r.partition, FlowID: r.flowID, Reason: reason, Actor: by.actor, Policy: policy,
	})
	if err != nil {
		return r.errorf("cancel", runFault(err))
	}
	return nil
}

// runFault converts an error of the engine about a run for callers of the API.
func runFault(err error) error {
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		return engine.ErrRunNotFound
	case errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
		return engine.ErrRunOver
	}
	return err
}

// nodeFault converts an error of the engine about a node or its run.
func nodeFault(err error) error {
	switch {
	case errors.Is(err, enginecore.ErrExecutionNotFound):
		return engine.ErrUnknownNode
	case errors.Is(err, enginecore.ErrExecutionNotActive):
		return engine.ErrNodeOver
	}
	return runFault(err)
}

// CancelNode cancels one node of the run, whether it waits or runs. Downstream nodes are skipped, or start as their
// joins allow. The run continues, and ends as cancelled if no node fails. Cancelling a cancelled node is not an error.
//
// The reason follows the rules of Cancel. The error wraps ErrInvalid; ErrNotFound when the run does not exist or has
// no such node; ErrOver when the node has ended otherwise; or, in contract mode, ErrNotInContract.
func (r *RunRef) CancelNode(ctx context.Context, node, reason string, opts ...ActionOption) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.CancelNode, node, func(ctx context.Context, r *RunRef) error {
			return r.CancelNode(ctx, node, reason, opts...)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	doing := fmt.Sprintf("cancel node %q of", node)
	core, err := library(ctx, r.client, "cancelling single nodes")
	if err != nil {
		return r.errorf(doing, err)
	}
	by, err := r.client.actionOf(opts)
	if err = errors.Join(err, engine.CheckReason(reason)); err != nil {
		return r.errorf(doing, err)
	}
	id, err := r.executionID(ctx, node)
	if errors.Is(err, engine.ErrRunNotFound) {
		err = engine.ErrUnknownNode
	}
	if err != nil {
		return r.errorf(doing, err)
	}
	reply, err := core.CancelNode(ctx, enginerpc.CancelNodeCall{
		Partition: r.partition, ExecutionID: id, Reason: reason, Actor: by.actor,
	})
	if err != nil {
		return r.errorf(doing, nodeFault(err))
	}
	if reply.More {
		r.client.drain(ctx, r.partition)
	}
	return nil
}
