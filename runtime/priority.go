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

// SetPriority changes the priority of all nodes of the run that have not ended, whatever they wait for, and of the
// items and nodes of its maps and sub-flows, those that have started and those that it starts later. What waits for a
// worker moves to its new place in its lane at once, and what waits for a place under a limit moves in the queue of the
// limit; what runs keeps the new priority for its next attempt. A rerun keeps the priority, too.
//
// Large runs, and the runs of maps and sub-flows, are changed in several steps; when one fails, repeat the call. A map
// or sub-flow that starts while the priority changes may keep the old one. The error wraps ErrInvalid, ErrRunNotFound,
// ErrRunOver, or in contract mode ErrNotInContract.
func (r *RunRef) SetPriority(ctx context.Context, priority int) error {
	if err := r.ready(); err != nil {
		return err
	}
	if err := r.setPriority(ctx, "", priority); err != nil {
		return r.errorf("set priority of", err)
	}
	return nil
}

// SetNodePriority is SetPriority for one node of the run. Its error may wrap ErrUnknownNode or ErrNodeOver as well.
func (r *RunRef) SetNodePriority(ctx context.Context, node string, priority int) error {
	if err := r.ready(); err != nil {
		return err
	}
	err := engine.ErrUnknownNode
	if node != "" {
		err = r.setPriority(ctx, node, priority)
	}
	if err != nil {
		return r.errorf("set priority of node "+node+" of", err)
	}
	return nil
}

// setPriority changes the priority of a node, or of all when it is empty.
func (r *RunRef) setPriority(ctx context.Context, node string, priority int) error {
	if priority < 0 || priority > activity.MaxPriority {
		return invalid("priority %d: must be 0 to %d", priority, activity.MaxPriority)
	}
	core, err := offered[engine.RunControl](r.client)
	if err != nil {
		return err
	}
	call := enginerpc.SetPriorityCall{Partition: r.partition, FlowID: r.flowID, Priority: int64(priority)}
	if node != "" {
		if call.ExecutionID, err = r.executionID(ctx, node); err != nil {
			return err
		}
	}
	children, err := r.client.setPriorityOf(ctx, core, call)
	if err != nil {
		return nodeFault(err)
	}
	for len(children) > 0 {
		child := children[0]
		children = children[1:]
		at, err := r.client.session.Core.FlowPartition(child)
		if err != nil {
			return err
		}
		further, err := r.client.setPriorityOf(ctx, core,
			enginerpc.SetPriorityCall{Partition: at, FlowID: child, Priority: int64(priority)})
		// A child may be over by now, or not started yet.
		if err != nil && !errors.Is(err, enginecore.ErrFlowNotFound) &&
			!errors.Is(err, enginecore.ErrFlowAlreadyTerminal) {
			return fmt.Errorf("run %s of a map or sub-flow: %w", child, err)
		}
		children = append(children, further...)
	}
	return nil
}

// setPriorityOf makes the calls for one run, moves what waits for limits, and returns the runs of its maps and
// sub-flows.
func (c *Client) setPriorityOf(
	ctx context.Context, core engine.RunControl, call enginerpc.SetPriorityCall,
) (children []enginecore.FlowID, err error) {
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
