package admin

import (
	"context"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
)

// FlowSummary counts the members of a flow.
type FlowSummary struct {
	// State is the state that follows from the members: open, running if members are active, blocked if members wait
	// and none is active, completed, failed or cancelled. It is empty before the first count. Members that a join no
	// longer needs do not make a flow fail.
	State string
	// Members is the number of members, Counted the number of those that the counts cover: all of them or, for a large
	// flow, a random sample.
	Members, Counted int
	// ByState counts members by state. States without members are missing.
	ByState map[fabrictype.NodeState]int
	// UpdatedAt is when the counts last changed, by the engine's clock.
	UpdatedAt time.Time
}

const membersPrefix = "members_"

// FlowSummary returns the counts of a flow's members by state, as of the last count by a keeper or another server;
// keepers count every 15 seconds (keeper task flow_projection). It is zero before the first count, and for runs of
// package runtime, whose Describe is always current. The error wraps enginecore.ErrFlowNotFound.
func (c *Client) FlowSummary(ctx context.Context, id enginecore.FlowID) (FlowSummary, error) {
	p, err := c.flowPartition(id)
	if err != nil {
		return FlowSummary{}, err
	}
	if _, err := c.flow(ctx, id, []string{"public_flow_state"}); err != nil {
		return FlowSummary{}, of(err, "summarize", "flow", string(id))
	}
	results, err := c.read(ctx, c.client.B().Hgetall().Key(c.keys.FlowSummary(p, id)).Build())
	if err != nil {
		return FlowSummary{}, of(err, "summarize", "flow", string(id))
	}
	stored, err := results[0].AsStrMap()
	if err != nil {
		return FlowSummary{}, of(enginerpc.ConnectError(err), "summarize", "flow", string(id))
	}
	r := hashrecord.Record(stored)
	s := FlowSummary{
		State: r["public_flow_state"], Members: int(r.Int("total_members")),
		Counted:   int(r.Int("sampled_members")),
		UpdatedAt: r.Time("last_summary_update_at"), ByState: make(map[fabrictype.NodeState]int),
	}
	for field := range r {
		if state, ok := strings.CutPrefix(field, membersPrefix); ok && r.Int(field) > 0 {
			s.ByState[fabrictype.NodeState(state)] = int(r.Int(field))
		}
	}
	return s, nil
}
