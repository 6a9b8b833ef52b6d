package contractmode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
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
		Partition: call.Partition, FlowID: call.FlowID, Tags: []string{tagSubmitted, "1"},
	})
	if err != nil {
		return err
	}
	return c.release(ctx, call.Partition, members)
}

// release releases held members: those without open dependencies become eligible, the others leave the index of
// delayed executions.
func (c *contract) release(ctx context.Context, p enginecore.Partition, members []enginecore.ExecutionID) error {
	cores, err := c.readCores(ctx, members, []string{"lane_id", "eligibility_state", "delay_until"})
	if err != nil {
		return err
	}
	lanes := make(map[enginecore.LaneID]bool)
	for from := 0; from < len(members); from += contractPage {
		to := min(from+contractPage, len(members))
		b := c.batch()
		promoted := make(map[int]*engine.CallResult[enginerpc.PromoteDelayedReply], to-from)
		for i := from; i < to; i++ {
			if cores[i]["eligibility_state"] == "not_eligible_until_time" &&
				!cores[i].Time("delay_until").Equal(heldUntil) {
				continue // it has been released before, and is delayed for another reason
			}
			promoted[i] = addAgain[enginerpc.PromoteDelayedReply](b, enginerpc.PromoteDelayedCall{
				LaneID: cores[i].Lane(), ExecutionID: members[i], Now: heldUntil,
			})
		}
		if err := b.run(ctx); err != nil {
			return err
		}
		for i, a := range promoted {
			if a.Err != nil {
				return a.Err
			}
			if a.Reply.Outcome == "promoted" {
				lanes[cores[i].Lane()] = true
			}
		}
	}
	for lane := range lanes {
		c.tellWork(ctx, p, lane)
		c.serveSoon(ctx, p, lane)
	}
	return nil
}

// joinLanes encodes the lanes of a flow as one text, separated by line breaks, which no lane contains.
func joinLanes(g *flowgraph.Graph) string {
	var lanes []string
	for i := range g.Nodes {
		lanes = append(lanes, string(laneOf(&g.Nodes[i])))
	}
	slices.Sort(lanes)
	return strings.Join(slices.Compact(lanes), "\n")
}

// splitLanes decodes the text of joinLanes.
func splitLanes(text string) []enginecore.LaneID {
	var lanes []enginecore.LaneID
	for lane := range strings.SplitSeq(text, "\n") {
		if lane != "" {
			lanes = append(lanes, enginecore.LaneID(lane))
		}
	}
	return lanes
}

// noteLane records a lane, so that the keepers of this process maintain it.
func (c *contract) noteLane(lane enginecore.LaneID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes[lane] = true
}
