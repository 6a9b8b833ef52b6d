package runtime

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// refsPerCall bounds the runs whose names one round trip reads.
const refsPerCall = 100

// nameRuns completes the references of budgets of runs, of which a budget knows the id only, with their names. Where a run is not
// there any more, the reference keeps its id, and no call takes it for another budget.
func (c *Client) nameRuns(ctx context.Context, states []BudgetState) error {
	var unnamed []*BudgetState
	for i := range states {
		if s := &states[i]; s.Scope == flowgraph.ScopeRun && s.Ref.Run == "" {
			s.Ref.FlowID = s.FlowID
			unnamed = append(unnamed, s)
		}
	}
	for len(unnamed) > 0 {
		page := unnamed[:min(len(unnamed), refsPerCall)]
		unnamed = unnamed[len(page):]
		calls := make([]enginerpc.DescribeFlowCall, len(page))
		for i, s := range page {
			p, err := c.session.Core.FlowPartition(s.FlowID)
			if err != nil {
				return err
			}
			calls[i] = enginerpc.DescribeFlowCall{Partition: p, FlowID: s.FlowID, Cursor: firstCursor, Limit: 1}
		}
		answers, _ := engine.SendAll(ctx, c.session.Core, calls) // each answer has its error
		for i, a := range answers {
			switch {
			case errors.Is(a.Err, enginecore.ErrFlowNotFound), a.Err == nil && a.Reply.RunID == "":
			case a.Err != nil:
				return a.Err
			default:
				page[i].Ref.Flow, page[i].Ref.Run, page[i].Ref.FlowID = a.Reply.FlowName, a.Reply.RunID, ""
			}
		}
	}
	return nil
}
