package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// release marks the flow as complete and releases its roots. Once the mark is stored, a keeper can finish the release.
func (s *contractSubmission) release(ctx context.Context) error {
	c, call := s.contract, s.call
	members, err := c.members(ctx, call.Partition, call.FlowID)
	if err != nil {
		return err
	}
	if int64(len(members)) < call.NodeTotal {
		return fmt.Errorf("flow %s has %d of %d nodes", call.FlowID, len(members), call.NodeTotal)
	}
	_, err = callAgain[enginerpc.SetFlowTagsReply](ctx, c, enginerpc.SetFlowTagsCall{
		Partition: call.Partition, FlowID: call.FlowID, Tags: []string{contractnode.TagSubmitted, "1"},
	})
	if err != nil {
		return err
	}
	return c.release(ctx, call.Partition, members)
}

// release releases held members: those without open dependencies become eligible, the others leave the index of
// delayed executions. The error joins an engine.ItemError for each that could not be released.
func (c *contract) release(ctx context.Context, p keyspace.Partition, members []enginecore.ExecutionID) error {
	members, cores, faults := c.readable(ctx, members, []string{"lane_id", "eligibility_state", "delay_until"})
	if retry.IsUnavailable(faults) {
		return faults
	}
	lanes := make(map[enginecore.LaneID]bool)
	for from := 0; from < len(members); from += contractPage {
		to := min(from+contractPage, len(members))
		b := c.batch()
		promoted := make(map[int]*batching.CallResult[enginerpc.PromoteDelayedReply], to-from)
		for i := from; i < to; i++ {
			if cores[i]["eligibility_state"] == "not_eligible_until_time" &&
				!cores[i].Time("delay_until").Equal(contractnode.HeldUntil()) {
				continue // it has been released before, and is delayed for another reason
			}
			promoted[i] = addAgain[enginerpc.PromoteDelayedReply](b, enginerpc.PromoteDelayedCall{
				LaneID: cores[i].Lane(), ExecutionID: members[i], Now: contractnode.HeldUntil(),
			})
		}
		if err := b.run(ctx); err != nil {
			return err
		}
		for i, a := range promoted {
			switch {
			case retry.IsUnavailable(a.Err):
				return a.Err
			case a.Err != nil:
				faults = errors.Join(faults, &engine.ItemError{Item: string(members[i]), Err: a.Err})
			case a.Reply.Outcome == "promoted":
				lanes[cores[i].Lane()] = true
			}
		}
	}
	for lane := range lanes {
		c.tellWork(ctx, p, lane)
		c.serveSoon(ctx, p, lane)
	}
	return faults
}
