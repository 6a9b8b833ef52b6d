package contractmode

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// CancelExecution ends an execution as cancelled and propagates that to the downstreams.
func (c *contract) CancelExecution(
	ctx context.Context, call enginerpc.CancelExecutionCall,
) (enginerpc.CancelExecutionReply, error) {
	p, err := call.ExecutionID.Partition()
	if err != nil {
		return enginerpc.CancelExecutionReply{}, err
	}
	lease, err := c.leaseOf(ctx, p, call.ExecutionID, call.LeaseID)
	if err != nil {
		return enginerpc.CancelExecutionReply{}, err
	}
	reply, err := c.core.CancelExecution(ctx, call)
	if err != nil && !endedBySelf(err, call.LeaseEpoch, lease.attemptID, "cancelled") {
		return reply, err
	}
	if _, err := c.propagate(ctx, p, "", lease.end(call.ExecutionID, "cancelled")); err != nil {
		return reply, err
	}
	c.leases.drop(call.LeaseID)
	return reply, nil
}

// DelayExecution gives a lease up until a time, and tells the keepers.
func (c *contract) DelayExecution(
	ctx context.Context, call enginerpc.DelayExecutionCall,
) (enginerpc.DelayExecutionReply, error) {
	reply, err := c.core.DelayExecution(ctx, call)
	if err != nil {
		return reply, err
	}
	c.leases.drop(call.LeaseID)
	if p, err := call.ExecutionID.Partition(); err == nil {
		c.tellDue(ctx, p, call.DelayUntil.UnixMilli())
	}
	return reply, nil
}

// MoveToWaitingChildren gives a lease up until the dependencies of its execution are satisfied.
func (c *contract) MoveToWaitingChildren(
	ctx context.Context, call enginerpc.MoveToWaitingChildrenCall,
) (enginerpc.MoveToWaitingChildrenReply, error) {
	reply, err := c.core.MoveToWaitingChildren(ctx, call)
	if err == nil {
		c.leases.drop(call.LeaseID)
	}
	return reply, err
}

// SuspendExecution gives a lease up until signals arrive, and tells the keepers of its timeout.
func (c *contract) SuspendExecution(
	ctx context.Context, call enginerpc.SuspendExecutionCall,
) (enginerpc.SuspendExecutionReply, error) {
	reply, err := c.core.SuspendExecution(ctx, call)
	if err != nil {
		return reply, err
	}
	c.leases.drop(call.LeaseID)
	if p, err := call.ExecutionID.Partition(); err == nil && !call.TimeoutAt.IsZero() {
		c.tellDue(ctx, p, call.TimeoutAt.UnixMilli())
	}
	return reply, nil
}
