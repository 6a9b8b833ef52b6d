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

// ActionOption adjusts what an operator does to a run.
type ActionOption func(*action)

type action struct{ actor string }

// WithActor says who acts, for the record, in at most 256 bytes without control characters; the call refuses others with
// ErrInvalid. Defaults to "client".
func WithActor(actor string) ActionOption { return func(a *action) { a.actor = actor } }

func actionOf(opts []ActionOption) (action, error) {
	a := action{actor: "client"}
	return a, errors.Join(apply(&a, opts), engine.CheckText("actor", a.actor, engine.MaxActor))
}

// Cancel stops the run: nothing of it starts any more, and running activities see their context cancelled. It returns
// when every node has been told. Cancelling a cancelled run is no error; a run that is over otherwise gives ErrRunOver. The
// reason has at most 2,048 bytes and no control characters; others are refused with ErrInvalid, in all calls that take one.
func (r *Run[Out]) Cancel(ctx context.Context, reason string, opts ...ActionOption) error {
	r = r.there()
	return r.client.Cancel(ctx, r.flow, r.id, reason, opts...)
}

// CancelPending is Client.CancelPending for this run.
func (r *Run[Out]) CancelPending(ctx context.Context, reason string, opts ...ActionOption) error {
	r = r.there()
	return r.client.CancelPending(ctx, r.flow, r.id, reason, opts...)
}

// CancelNode is Client.CancelNode for this run.
func (r *Run[Out]) CancelNode(ctx context.Context, node, reason string, opts ...ActionOption) error {
	r = r.there()
	return r.client.CancelNode(ctx, r.flow, r.id, node, reason, opts...)
}

// Cancel is Run.Cancel for a run known by name.
func (c *Client) Cancel(ctx context.Context, flowName, runID, reason string, opts ...ActionOption) error {
	return c.cancel(ctx, flowName, runID, submit.CancelAll, reason, opts)
}

// CancelPending stops what has not started: nodes that run may end and keep their results, but get no further attempt;
// everything else of the run is cancelled, and so is the run once the last of them has ended. Cancel may still follow. It
// returns ErrRunOver as Cancel does.
func (c *Client) CancelPending(ctx context.Context, flowName, runID, reason string, opts ...ActionOption) error {
	return c.cancel(ctx, flowName, runID, submit.CancelPending, reason, opts)
}

func (c *Client) cancel(ctx context.Context, flowName, runID, policy, reason string, opts []ActionOption) error {
	fault := func(err error) error { return fmt.Errorf("cancel run %s of flow %s: %w", runID, flowName, err) }
	id, partition, err := c.locate(flowName, runID)
	if err != nil {
		return err
	}
	by, err := actionOf(opts)
	if err = errors.Join(err, engine.CheckReason(reason)); err != nil {
		return fault(err)
	}
	if policy != submit.CancelAll {
		if _, err := offered[engine.RunControl](c); err != nil {
			return fault(err)
		}
	}
	err = submit.CancelRun(ctx, c.session, enginerpc.CancelFlowCall{
		Partition: partition, FlowID: id, Reason: reason, Actor: by.actor, Policy: policy,
	})
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		return fault(engine.ErrRunNotFound)
	case errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
		return fault(engine.ErrRunOver)
	case err != nil:
		return fault(err)
	}
	return nil
}

// CancelNode cancels one node of a run, whether it waits or runs; what depends on it is skipped, or goes on by its joins.
// The run goes on, and counts as cancelled if nothing of it fails. Cancelling a cancelled node is no error; one that has
// ended otherwise gives ErrNodeOver. The error wraps ErrUnknownNode when the run, if there is one, has no such node.
func (c *Client) CancelNode(ctx context.Context, flowName, runID, node, reason string, opts ...ActionOption) error {
	fault := func(err error) error {
		return fmt.Errorf("cancel node %q of run %s of flow %s: %w", node, runID, flowName, err)
	}
	id, partition, err := c.locate(flowName, runID)
	if err != nil {
		return err
	}
	core, err := offered[engine.RunControl](c)
	if err != nil {
		return fault(err)
	}
	by, err := actionOf(opts)
	if err = errors.Join(err, engine.CheckReason(reason)); err != nil {
		return fault(err)
	}
	reply, err := core.CancelNode(ctx, enginerpc.CancelNodeCall{
		Partition: partition, ExecutionID: enginecore.ExecutionIDFor(partition, id, node), Reason: reason,
		Actor: by.actor,
	})
	switch {
	case errors.Is(err, enginecore.ErrExecutionNotFound):
		return fault(engine.ErrUnknownNode)
	case errors.Is(err, enginecore.ErrExecutionNotActive):
		return fault(engine.ErrNodeOver)
	case err != nil:
		return fault(err)
	}
	for more := reply.More; more; {
		tick, err := c.session.Backend.Tick(ctx, enginerpc.TickCall{Partition: partition, Limit: engine.TickLimit})
		if err != nil {
			return nil // the node is cancelled; what follows from it is the keeper's as well
		}
		more = tick.More
	}
	return nil
}
