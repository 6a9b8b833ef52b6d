package execution

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// CancelExecution ends an execution as cancelled and propagates that to the downstreams.
func (c *Steps) CancelExecution(
	ctx context.Context, call enginerpc.CancelExecutionCall,
) (enginerpc.CancelExecutionReply, error) {
	p, err := keyspace.PartitionOf(call.ExecutionID)
	if err != nil {
		return enginerpc.CancelExecutionReply{}, err
	}
	lease, err := c.leaseOf(ctx, p, call.ExecutionID, call.LeaseID)
	if err != nil {
		return enginerpc.CancelExecutionReply{}, err
	}
	reply, err := c.Core.CancelExecution(ctx, call)
	if err != nil && !endedBySelf(err, call.LeaseEpoch, lease.attemptID, "cancelled") {
		return reply, err
	}
	if _, err := c.Propagate(ctx, p, "", lease.end(call.ExecutionID, "cancelled")); err != nil {
		return reply, err
	}
	c.leases.drop(call.LeaseID)
	return reply, nil
}

// DelayExecution gives a lease up until a time, and notifies the keepers.
func (c *Steps) DelayExecution(
	ctx context.Context, call enginerpc.DelayExecutionCall,
) (enginerpc.DelayExecutionReply, error) {
	reply, err := c.Core.DelayExecution(ctx, call)
	if err != nil {
		return reply, err
	}
	c.leases.drop(call.LeaseID)
	if p, err := keyspace.PartitionOf(call.ExecutionID); err == nil {
		c.TellDue(ctx, p, call.DelayUntil.UnixMilli())
	}
	return reply, nil
}

// MoveToWaitingChildren gives a lease up until the dependencies of its execution are satisfied. If they already are,
// the contract does not make the execution eligible, so this function does.
func (c *Steps) MoveToWaitingChildren(
	ctx context.Context, call enginerpc.MoveToWaitingChildrenCall,
) (enginerpc.MoveToWaitingChildrenReply, error) {
	reply, err := c.Core.MoveToWaitingChildren(ctx, call)
	if err != nil {
		return reply, err
	}
	c.leases.drop(call.LeaseID)
	// If this fails, a keeper does it.
	_, _ = c.PromoteSatisfied(ctx, []enginecore.ExecutionID{call.ExecutionID})
	return reply, nil
}

// PromoteSatisfied makes the executions eligible that are blocked by dependencies although all of them are satisfied,
// and returns their number. It skips an execution without dependencies, since its program decides when it continues.
// The error joins an engine.ItemError for each that failed.
func (c *Steps) PromoteSatisfied(
	ctx context.Context, ids []enginecore.ExecutionID,
) (promoted int64, faults error) {
	commands := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		commands[i] = c.Client.B().Exists().Key(c.Keys.ExecDepsMeta(id)).Build()
	}
	results, err := c.Read(ctx, commands...)
	if err != nil {
		return 0, err
	}
	var some []enginecore.ExecutionID
	for i, id := range ids {
		if n, err := results[i].AsInt64(); err == nil && n == 1 {
			some = append(some, id)
		}
	}
	ids, cores, faults := c.Readable(ctx, some, []string{"lane_id"})
	if retry.IsUnavailable(faults) {
		return 0, faults
	}
	calls := make([]enginerpc.PromoteBlockedToEligibleCall, len(ids))
	for i, id := range ids {
		calls[i] = enginerpc.PromoteBlockedToEligibleCall{LaneID: cores[i].Lane(), ExecutionID: id, Now: c.Now()}
	}
	for i, answer := range link.Send[enginerpc.PromoteBlockedToEligibleReply](ctx, c.Link, calls) {
		if answer.Err != nil {
			if !link.IsOneOf(answer.Err, stillBlocked) {
				faults = errors.Join(faults, &engine.ItemError{Item: string(ids[i]), Err: answer.Err})
			}
			continue
		}
		promoted++
		if p, err := keyspace.PartitionOf(ids[i]); err == nil {
			c.TellWork(ctx, p, calls[i].LaneID)
		}
	}
	return promoted, faults
}

// stillBlocked are the refusals of a promotion that was not needed, or is not possible yet.
var stillBlocked = []error{
	enginecore.ErrExecutionNotFound, errorcode.NotRunnable, errorcode.NotBlockedByDeps, errorcode.Terminal,
	errorcode.DepsNotSatisfied,
}

// SuspendExecution gives a lease up until signals arrive, and notifies the keepers of its timeout.
func (c *Steps) SuspendExecution(
	ctx context.Context, call enginerpc.SuspendExecutionCall,
) (enginerpc.SuspendExecutionReply, error) {
	condition, err := conditionOf(call.ResumeConditionJSON)
	if err != nil {
		return enginerpc.SuspendExecutionReply{}, err
	}
	call.ResumeConditionJSON = condition
	reply, err := c.Core.SuspendExecution(ctx, call)
	if err != nil {
		return reply, err
	}
	c.leases.drop(call.LeaseID)
	if p, err := keyspace.PartitionOf(call.ExecutionID); err == nil && !call.TimeoutAt.IsZero() {
		c.TellDue(ctx, p, call.TimeoutAt.UnixMilli())
	}
	return reply, nil
}
