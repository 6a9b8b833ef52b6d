package flows

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

var CancelFields = []string{
	"lifecycle_phase", "lane_id", "current_attempt_index", "current_waitpoint_id", "current_worker_instance_id",
	"current_lease_id",
	"ownership_state",
}

// CancelMembers ends members of a cancelled flow, notifies the workers that run them, and acknowledges them in the
// list of owed cancels. It returns how many it acknowledged; the error joins an engine.ItemError for each of the
// others.
func (c *Flows) CancelMembers(
	ctx context.Context, p keyspace.Partition, flow enginecore.FlowID, reason string, ids []enginecore.ExecutionID,
) (ended int, faults error) {
	for len(ids) > 0 {
		page := ids[:min(len(ids), link.Page/2)]
		ids = ids[len(page):]
		n, err := c.cancelSome(ctx, flow, reason, page)
		ended += n
		if faults = errors.Join(faults, err); retry.IsUnavailable(err) {
			return ended, faults
		}
	}
	return ended, errors.Join(faults, c.CheckEnd(ctx, p, flow))
}

// cancelSome is the part of CancelMembers for one page.
func (c *Flows) cancelSome(
	ctx context.Context, flow enginecore.FlowID, reason string, ids []enginecore.ExecutionID,
) (ended int, faults error) {
	ids, cores, faults := c.Readable(ctx, ids, CancelFields)
	if retry.IsUnavailable(faults) {
		return 0, faults
	}
	b := c.Batch()
	cancelled := make([]*batching.CallResult[enginerpc.CancelExecutionReply], len(ids))
	for i, id := range ids {
		if cores[i].Exists() && !cores[i].IsTerminal() {
			cancelled[i] = link.AddAgain[enginerpc.CancelExecutionReply](b, CancelCall(id, cores[i], reason))
		}
	}
	if err := b.Run(ctx); err != nil {
		return 0, err
	}
	b = c.Batch()
	for i, id := range ids {
		if a := cancelled[i]; a != nil {
			if a.Err != nil && !errors.Is(a.Err, enginecore.ErrExecutionNotActive) &&
				!errors.Is(a.Err, enginecore.ErrExecutionNotFound) {
				faults = errors.Join(faults, &engine.ItemError{Item: string(id), Err: a.Err})
				continue // it stays owed
			}
			c.TellStop(ctx, id, cores[i], engine.StopCancelled, reason)
		}
		ended++
		link.AddAgain[enginerpc.AckCancelMemberReply](b, enginerpc.AckCancelMemberCall{ExecutionID: id, FlowID: flow})
	}
	if err := b.Run(ctx); err != nil {
		return 0, errors.Join(faults, err)
	}
	return ended, faults
}

// CancelCall returns the call that ends a member. A flow's cancel publishes no completions of its members, so that no
// program propagates them; only an operator can end a member whose lease was revoked.
func CancelCall(id enginecore.ExecutionID, core engine.Record, reason string) enginerpc.CancelExecutionCall {
	source := "flow_cascade"
	if core["ownership_state"] == "lease_revoked" {
		source = "operator_override"
	}
	return enginerpc.CancelExecutionCall{
		AttemptIndex: enginecore.AttemptIndex(core.Int("current_attempt_index")), LaneID: core.Lane(), ExecutionID: id,
		WorkerInstanceID: enginecore.WorkerInstanceID(core["current_worker_instance_id"]),
		WaitpointID:      enginecore.WaitpointID(core["current_waitpoint_id"]), Reason: reason, Source: source,
	}
}
