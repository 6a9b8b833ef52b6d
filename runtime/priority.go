package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// SetPriority changes the priority of all nodes of the run that have not ended, whatever they wait for, and of the items and
// nodes of its maps and sub-flows, those that have started and those that it starts later. What waits for a worker moves to its
// new place in its lane at once, and what waits for a place under a limit moves in the queue of the limit; what runs keeps the
// new priority for its next attempt. A rerun keeps the priority, too. It returns ErrInvalid, ErrRunNotFound, ErrRunOver, or in
// contract mode ErrNotInContract. Large runs, and the runs of maps and sub-flows, are changed in several steps; when one fails,
// repeat it. A map or sub-flow that starts while the priority changes may keep the old one.
func (r *Run[Out]) SetPriority(ctx context.Context, priority int) error {
	r = r.there()
	return r.client.SetPriority(ctx, r.flow, r.id, priority)
}

// SetNodePriority is Client.SetNodePriority for this run.
func (r *Run[Out]) SetNodePriority(ctx context.Context, node string, priority int) error {
	r = r.there()
	return r.client.SetNodePriority(ctx, r.flow, r.id, node, priority)
}

// SetPriority is Run.SetPriority for a run known by name.
func (c *Client) SetPriority(ctx context.Context, flowName, runID string, priority int) error {
	fault := func(err error) error {
		return fmt.Errorf("set priority of run %s of flow %s: %w", runID, flowName, err)
	}
	return c.setPriority(ctx, flowName, runID, "", priority, fault)
}

// SetNodePriority is SetPriority for one node of a run. It returns ErrUnknownNode or ErrNodeOver as well.
func (c *Client) SetNodePriority(ctx context.Context, flowName, runID, node string, priority int) error {
	fault := func(err error) error {
		return fmt.Errorf("set priority of node %s of run %s of flow %s: %w", node, runID, flowName, err)
	}
	if node == "" {
		return fault(engine.ErrUnknownNode)
	}
	return c.setPriority(ctx, flowName, runID, node, priority, fault)
}

func (c *Client) setPriority(ctx context.Context, flowName, runID, node string, priority int, fault func(error) error) error {
	if priority < 0 || priority > activity.MaxPriority {
		return fault(invalid("priority %d: must be 0 to %d", priority, activity.MaxPriority))
	}
	core, err := offered[engine.RunControl](c)
	if err != nil {
		return fault(err)
	}
	id, partition, err := c.locate(flowName, runID)
	if err != nil {
		return err
	}
	call := enginerpc.SetPriorityCall{Partition: partition, FlowID: id, Priority: int64(priority)}
	if node != "" {
		call.ExecutionID = enginecore.ExecutionIDFor(partition, id, node)
	}
	children, err := c.setPriorityOf(ctx, core, call)
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		return fault(engine.ErrRunNotFound)
	case errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
		return fault(engine.ErrRunOver)
	case errors.Is(err, enginecore.ErrExecutionNotFound):
		return fault(engine.ErrUnknownNode)
	case errors.Is(err, enginecore.ErrExecutionNotActive):
		return fault(engine.ErrNodeOver)
	case err != nil:
		return fault(err)
	}
	for len(children) > 0 {
		child := children[0]
		children = children[1:]
		at, err := c.session.Core.FlowPartition(child)
		if err != nil {
			return fault(err)
		}
		further, err := c.setPriorityOf(ctx, core, enginerpc.SetPriorityCall{Partition: at, FlowID: child, Priority: int64(priority)})
		// A child may be over by now, or not started yet.
		if err != nil && !errors.Is(err, enginecore.ErrFlowNotFound) && !errors.Is(err, enginecore.ErrFlowAlreadyTerminal) {
			return fault(fmt.Errorf("run %s of a map or sub-flow: %w", child, err))
		}
		children = append(children, further...)
	}
	return nil
}

// setPriorityOf makes the calls for one run, moves what waits for limits, and returns the runs of its maps and sub-flows.
func (c *Client) setPriorityOf(ctx context.Context, core engine.RunControl, call enginerpc.SetPriorityCall) (children []enginecore.FlowID, err error) {
	for {
		reply, err := core.SetPriority(ctx, call)
		if err != nil {
			return children, err
		}
		if len(reply.Candidates) > 0 {
			admission.Admitter{Session: c.session}.Promote(ctx, reply.Candidates, 0)
		}
		for _, child := range reply.Children {
			children = append(children, child.FlowID)
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return children, nil
		}
	}
}
