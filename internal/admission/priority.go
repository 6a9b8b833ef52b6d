package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// SetPriority changes the priority of the nodes of a run, and of its maps and sub-flows, and moves the executions that
// wait for limits.
func SetPriority(ctx context.Context, s *engine.Session, core engine.Library, call enginerpc.SetPriorityCall) error {
	children, err := setPriorityOf(ctx, s, core, call)
	if err != nil {
		return err
	}
	for len(children) > 0 {
		child := children[0]
		children = children[1:]
		at, err := s.Core.FlowPartition(child)
		if err != nil {
			return err
		}
		further, err := setPriorityOf(ctx, s, core,
			enginerpc.SetPriorityCall{Partition: at, FlowID: child, Priority: call.Priority})
		// A child may be over by now, or not started yet.
		if err != nil && !errors.Is(err, enginecore.ErrFlowNotFound) &&
			!errors.Is(err, enginecore.ErrFlowAlreadyTerminal) {
			return fmt.Errorf("run %s of a map or sub-flow: %w", child, err)
		}
		children = append(children, further...)
	}
	return nil
}

// setPriorityOf makes the calls for one run, moves the executions that wait for limits, and returns the runs of its
// maps and sub-flows.
func setPriorityOf(
	ctx context.Context, s *engine.Session, core engine.Library, call enginerpc.SetPriorityCall,
) (children []enginecore.FlowID, err error) {
	for {
		reply, err := core.SetPriority(ctx, call)
		if err != nil {
			return children, err
		}
		if len(reply.Candidates) > 0 {
			Admitter{Session: s}.Promote(ctx, reply.Candidates, 0)
		}
		for _, child := range reply.Children {
			children = append(children, child.FlowID)
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return children, nil
		}
	}
}
