package execution

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// ReleaseMembers releases held members: those without open dependencies become eligible, the others leave the index of
// delayed executions. The error joins an engine.ItemError for each that could not be released.
func (c *Steps) ReleaseMembers(ctx context.Context, p keyspace.Partition, members []enginecore.ExecutionID) error {
	members, cores, faults := c.Readable(ctx, members, []string{"lane_id", "eligibility_state", "delay_until"})
	if retry.IsUnavailable(faults) {
		return faults
	}
	lanes := make(map[enginecore.LaneID]bool)
	for from := 0; from < len(members); from += link.Page {
		to := min(from+link.Page, len(members))
		b := c.Batch()
		promoted := make(map[int]*batching.CallResult[enginerpc.PromoteDelayedReply], to-from)
		for i := from; i < to; i++ {
			if cores[i]["eligibility_state"] == "not_eligible_until_time" &&
				!cores[i].Time("delay_until").Equal(contractnode.HeldUntil()) {
				continue // it has been released before, and is delayed for another reason
			}
			promoted[i] = link.AddAgain[enginerpc.PromoteDelayedReply](b, enginerpc.PromoteDelayedCall{
				LaneID: cores[i].Lane(), ExecutionID: members[i], Now: contractnode.HeldUntil(),
			})
		}
		if err := b.Run(ctx); err != nil {
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
		c.TellWork(ctx, p, lane)
		c.ServeSoon(ctx, p, lane)
	}
	return faults
}
