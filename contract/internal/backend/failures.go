package backend

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// FlowFailures returns the nodes that failed, expired or were cancelled on their own, all in one page.
func (c *contract) FlowFailures(
	ctx context.Context, call enginerpc.FlowFailuresCall,
) (enginerpc.FlowFailuresReply, error) {
	reply := enginerpc.FlowFailuresReply{Status: enginerpc.StatusOK}
	run, err := c.readRun(ctx, call.Partition, call.FlowID)
	if err != nil {
		return reply, err
	}
	for _, n := range run.nodes {
		f := enginerpc.FlowFailure{
			ExecutionID: n.id, Node: n.name, Outcome: n.core["terminal_outcome"], EndedAt: n.core.Time("completed_at"),
			Attempts: n.core.Int("total_attempt_count"), Reason: n.core["failure_reason"], Category: n.category,
			Tolerated: n.tolerated, Details: n.details,
		}
		switch {
		case n.unneeded:
			continue
		case f.Outcome == "failed", f.Outcome == "expired" && !n.exceededDeadline():
		case f.Outcome == "cancelled" && run.core["public_flow_state"] != "cancelled":
			f.Reason, f.Category = n.core["cancellation_reason"], ""
			f.Details = nil
		default:
			continue
		}
		reply.Failures = append(reply.Failures, f)
	}
	return reply, nil
}
