package backend

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// EnterWorker records the capabilities of a worker for schedulers and scanners of the contract, and its lanes for
// keepers. A worker without capabilities is not listed.
func (c *contract) EnterWorker(
	ctx context.Context, instance enginecore.WorkerInstanceID, capabilities string, lanes []enginecore.LaneID,
) error {
	if err := c.core.EnterLanesAgain(ctx, lanes...); err != nil {
		return err
	}
	if capabilities == "" {
		return c.LeaveWorker(ctx, instance)
	}
	return c.write(ctx,
		c.client.B().Set().Key(c.keys.WorkerCapabilities(instance)).Value(capabilities).Build(),
		c.client.B().Sadd().Key(c.keys.Workers()).Member(string(instance)).Build())
}

// LeaveWorker removes a worker from the list.
func (c *contract) LeaveWorker(ctx context.Context, instance enginecore.WorkerInstanceID) error {
	return c.write(ctx,
		c.client.B().Del().Key(c.keys.WorkerCapabilities(instance)).Build(),
		c.client.B().Srem().Key(c.keys.Workers()).Member(string(instance)).Build())
}

// write sends writes of plain keys in one round trip.
func (c *contract) write(ctx context.Context, commands ...rueidis.Completed) error {
	for _, result := range c.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return engine.ReadError(ctx, "write", err)
		}
	}
	return nil
}

// Announce makes the executions of a lane eligible that another program or worker has blocked until a worker with the
// capabilities of this one appears. It reads up to searchPages pages of them.
func (c *contract) Announce(
	ctx context.Context, call enginerpc.AnnounceCall,
) (enginerpc.AnnounceReply, error) {
	reply := enginerpc.AnnounceReply{Status: enginerpc.StatusOK}
	for offset, page := int64(0), 0; page < searchPages; page++ {
		results, err := c.read(ctx, c.client.B().Zrange().Key(c.keys.LaneBlockedRoute(call.Partition, call.LaneID)).
			Min(engine.Decimal(offset)).Max(engine.Decimal(offset+maxCandidates-1)).Build())
		if err != nil {
			return reply, err
		}
		ids := idsOf[enginecore.ExecutionID](results[0])
		released, err := c.releaseRouted(ctx, call, ids)
		if err != nil || len(ids) < maxCandidates {
			return reply, err
		}
		offset += maxCandidates - released
	}
	return reply, nil
}

// releaseRouted makes the executions eligible that the announcing worker can run, and returns their number. Executions
// for which that fails are left to keepers, which report them.
func (c *contract) releaseRouted(
	ctx context.Context, call enginerpc.AnnounceCall, ids []enginecore.ExecutionID,
) (released int64, err error) {
	ids, cores, err := c.readable(ctx, ids, append([]string{"blocking_reason"}, engine.ClaimFields...))
	if retry.IsUnavailable(err) {
		return 0, err
	}
	request := enginerpc.ClaimRequest{LaneID: call.LaneID, Kinds: call.Kinds, Capabilities: call.Capabilities}
	var calls []enginerpc.UnblockExecutionCall
	for i, id := range ids {
		x := contractCandidate{id: id, core: cores[i]}
		if cores[i]["blocking_reason"] == reasonRoute && x.isKnown(&request) {
			calls = append(calls, enginerpc.UnblockExecutionCall{
				LaneID: call.LaneID, ExecutionID: id, Now: c.now(), ExpectedBlockingReason: reasonRoute,
			})
		}
	}
	for _, a := range sendContract[enginerpc.UnblockExecutionReply](ctx, c, calls) {
		if retry.IsUnavailable(a.Err) {
			return released, a.Err
		}
		if a.Err == nil {
			released++
		}
	}
	return released, nil
}

// reasonRoute is the reason of executions that wait for a worker with their capabilities.
const reasonRoute = "waiting_for_capable_worker"
