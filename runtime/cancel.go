package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// ActionOption adjusts what an operator does to a run. It is a StartOption as well.
type ActionOption func(*action)

type action struct{ actor string }

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

// WithActor says who acts or starts the run, for the record, in at most 256 bytes without control characters; the call
// refuses others with ErrInvalid. Defaults to "client" for what is done to a run, and to nobody for Start.
func WithActor(actor string) ActionOption { return func(a *action) { a.actor = actor } }

func actionOf(opts []ActionOption) (action, error) {
	a := action{actor: "client"}
	return a, errors.Join(apply(&a, opts), engine.CheckText("actor", a.actor, engine.MaxActor))
}

// Cancel stops the run: nothing of it starts any more, and running activities see their context cancelled. It returns
// when every node has been told. A call that was interrupted may be repeated; keepers do what it has left over.
// Cancelling a cancelled run is no error.
//
// The reason has at most 2,048 bytes and no control characters. The error wraps ErrInvalid for others, ErrRunNotFound,
// or ErrRunOver when the run is over otherwise.
func (r *RunRef) Cancel(ctx context.Context, reason string, opts ...ActionOption) error {
	return r.cancel(ctx, submit.CancelAll, reason, opts)
}

// CancelPending stops what has not started: nodes that run may end and keep their results, but get no further attempt;
// everything else of the run is cancelled, and so is the run once the last of them has ended. Cancel may still follow.
// Its errors are those of Cancel, and ErrNotInContract in contract mode.
func (r *RunRef) CancelPending(ctx context.Context, reason string, opts ...ActionOption) error {
	return r.cancel(ctx, submit.CancelPending, reason, opts)
}

func (r *RunRef) cancel(ctx context.Context, policy, reason string, opts []ActionOption) error {
	if err := r.ready(); err != nil {
		return err
	}
	by, err := actionOf(opts)
	if err = errors.Join(err, engine.CheckReason(reason)); err != nil {
		return r.errorf("cancel", err)
	}
	if policy != submit.CancelAll {
		if _, err := offered[engine.RunControl](r.client); err != nil {
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

// runFault returns what an error of the engine says of a run, for callers of the API.
func runFault(err error) error {
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		return engine.ErrRunNotFound
	case errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
		return engine.ErrRunOver
	}
	return err
}

// nodeFault returns what an error of the engine says of a node or its run.
func nodeFault(err error) error {
	switch {
	case errors.Is(err, enginecore.ErrExecutionNotFound):
		return engine.ErrUnknownNode
	case errors.Is(err, enginecore.ErrExecutionNotActive):
		return engine.ErrNodeOver
	}
	return runFault(err)
}

// CancelNode cancels one node of the run, whether it waits or runs; what depends on it is skipped, or goes on by its
// joins. The run goes on, and counts as cancelled if nothing of it fails. Cancelling a cancelled node is no error.
//
// The reason is as in Cancel. The error wraps ErrInvalid, ErrUnknownNode when the run has no such node or there is no
// such run, ErrNodeOver when the node has ended otherwise, or in contract mode ErrNotInContract.
func (r *RunRef) CancelNode(ctx context.Context, node, reason string, opts ...ActionOption) error {
	if err := r.ready(); err != nil {
		return err
	}
	doing := fmt.Sprintf("cancel node %q of", node)
	core, err := offered[engine.RunControl](r.client)
	if err != nil {
		return r.errorf(doing, err)
	}
	by, err := actionOf(opts)
	if err = errors.Join(err, engine.CheckReason(reason)); err != nil {
		return r.errorf(doing, err)
	}
	id, err := r.executionID(ctx, node)
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
