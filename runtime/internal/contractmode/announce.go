package contractmode

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// EnterWorker records a worker where schedulers and scanners of the contract look for capabilities. A worker without
// any is not listed.
func (c *contract) EnterWorker(
	ctx context.Context, instance enginecore.WorkerInstanceID, capabilities string,
) error {
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

// Announce makes the executions at the head of a lane eligible that another program has set aside for a worker with
// the capabilities of this one.
func (c *contract) Announce(
	ctx context.Context, call enginerpc.AnnounceCall,
) (enginerpc.AnnounceReply, error) {
	reply := enginerpc.AnnounceReply{Status: enginerpc.StatusOK}
	results, err := c.read(ctx, c.client.B().Zrange().Key(c.keys.LaneBlockedRoute(call.Partition, call.LaneID)).
		Min("0").Max(engine.Decimal(maxCandidates-1)).Build())
	if err != nil {
		return reply, err
	}
	ids := idsOf[enginecore.ExecutionID](results[0])
	cores, err := c.readCores(ctx, ids, append([]string{"blocking_reason"}, engine.ClaimFields...))
	if err != nil {
		return reply, err
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
	_, err = accepted(sendContract[enginerpc.UnblockExecutionReply](ctx, c, calls))
	return reply, err
}

// reasonRoute is the reason of executions that wait for a worker with their capabilities.
const reasonRoute = "waiting_for_capable_worker"
