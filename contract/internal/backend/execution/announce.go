package execution

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// EnterWorker records the capabilities of a worker for schedulers and scanners of the contract, and its lanes for
// keepers. A worker without capabilities is not listed.
func (c *Steps) EnterWorker(
	ctx context.Context, instance enginecore.WorkerInstanceID, capabilities string, lanes []enginecore.LaneID,
) error {
	if err := c.Core.EnterLanesAgain(ctx, lanes...); err != nil {
		return err
	}
	if capabilities == "" {
		return c.LeaveWorker(ctx, instance)
	}
	return c.write(ctx,
		c.Client.B().Set().Key(c.Keys.WorkerCapabilities(instance)).Value(capabilities).Build(),
		c.Client.B().Sadd().Key(c.Keys.Workers()).Member(string(instance)).Build())
}

// LeaveWorker removes a worker from the list.
func (c *Steps) LeaveWorker(ctx context.Context, instance enginecore.WorkerInstanceID) error {
	return c.write(ctx,
		c.Client.B().Del().Key(c.Keys.WorkerCapabilities(instance)).Build(),
		c.Client.B().Srem().Key(c.Keys.Workers()).Member(string(instance)).Build())
}

// write sends writes of plain keys in one round trip.
func (c *Steps) write(ctx context.Context, commands ...rueidis.Completed) error {
	for _, result := range c.Client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return engine.ReadError(ctx, "write", err)
		}
	}
	return nil
}

// Announce makes the executions of a lane eligible that another program or worker has blocked until a worker with the
// capabilities of this one appears. It reads up to searchPages pages of them.
func (c *Steps) Announce(
	ctx context.Context, call enginerpc.AnnounceCall,
) (enginerpc.AnnounceReply, error) {
	reply := enginerpc.AnnounceReply{Status: enginerpc.StatusOK}
	for offset, page := int64(0), 0; page < searchPages; page++ {
		results, err := c.Read(ctx, c.Client.B().Zrange().Key(c.Keys.LaneBlockedRoute(call.Partition, call.LaneID)).
			Min(engine.Decimal(offset)).Max(engine.Decimal(offset+maxCandidates-1)).Build())
		if err != nil {
			return reply, err
		}
		ids := link.IDsOf[enginecore.ExecutionID](results[0])
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
func (c *Steps) releaseRouted(
	ctx context.Context, call enginerpc.AnnounceCall, ids []enginecore.ExecutionID,
) (released int64, err error) {
	ids, cores, err := c.Readable(ctx, ids, append([]string{"blocking_reason"}, engine.ClaimFields...))
	if retry.IsUnavailable(err) {
		return 0, err
	}
	request := enginerpc.ClaimRequest{LaneID: call.LaneID, Kinds: call.Kinds, Capabilities: call.Capabilities}
	var calls []enginerpc.UnblockExecutionCall
	for i, id := range ids {
		x := Candidate{id: id, core: cores[i]}
		if cores[i]["blocking_reason"] == ReasonRoute && x.isKnown(&request) {
			calls = append(calls, enginerpc.UnblockExecutionCall{
				LaneID: call.LaneID, ExecutionID: id, Now: c.Now(), ExpectedBlockingReason: ReasonRoute,
			})
		}
	}
	for _, a := range link.Send[enginerpc.UnblockExecutionReply](ctx, c.Link, calls) {
		if retry.IsUnavailable(a.Err) {
			return released, a.Err
		}
		if a.Err == nil {
			released++
		}
	}
	return released, nil
}

// ReasonRoute is the reason of executions that wait for a worker with their capabilities.
const ReasonRoute = "waiting_for_capable_worker"
