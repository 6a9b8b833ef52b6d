package runtime

import (
	"context"
	"strconv"

	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// SetPriority changes the priority of all nodes of the run that have not ended, and of all nodes of its child runs,
// including those that are created later. Nodes that wait for a worker or for a permit of a limit move to their new
// position in the queue at once; running nodes use the new priority for their next attempt. A rerun keeps the priority.
//
// Large runs and child runs are changed in several steps; after an error, repeat the call. A map or sub-flow that
// starts during the call may keep the old priority. The error wraps ErrInvalid, ErrNotFound, ErrOver, or in
// contract mode ErrNotInContract.
func (r *RunRef) SetPriority(ctx context.Context, priority int) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.SetPriority, "", func(ctx context.Context, r *RunRef) error {
			return r.SetPriority(ctx, priority)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	if err := r.setPriority(ctx, "", priority); err != nil {
		return r.errorf("set priority of", err)
	}
	return nil
}

// SetNodePriority changes the priority of one node of the run, as SetPriority does for all. The error may also wrap
// ErrNotFound or ErrOver.
func (r *RunRef) SetNodePriority(ctx context.Context, node string, priority int) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.SetPriority, node, func(ctx context.Context, r *RunRef) error {
			return r.SetNodePriority(ctx, node, priority)
		})
	}
	if err := r.ready(ctx); err != nil {
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
	if err := checkPriority(priority); err != nil {
		return err
	}
	core, err := library(ctx, r.client, "changing priorities")
	if err != nil {
		return err
	}
	call := enginerpc.SetPriorityCall{Partition: r.partition, FlowID: r.flowID, Priority: int64(priority)}
	if node != "" {
		if call.ExecutionID, err = r.executionID(ctx, node); err != nil {
			return err
		}
	}
	entry := r.auditEntry(auditlink.SetPriority, node)
	entry.Detail = strconv.Itoa(priority)
	return r.client.audited(ctx, entry, func(ctx context.Context) error {
		if err := admission.SetPriority(ctx, r.client.session, core, call); err != nil {
			return nodeFault(err)
		}
		return nil
	})
}

func checkPriority(priority int) error {
	if priority < 0 || priority > activityspec.MaxPriority {
		return invalid("priority %d: must be 0 to %d", priority, activityspec.MaxPriority)
	}
	return nil
}
