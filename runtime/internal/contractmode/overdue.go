package contractmode

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// resetsEvery is the interval at which keepers check for budgets to reset.
const resetsEvery = 15 * time.Second

// Overdue returns the indexes that keepers work off besides the tick: the budgets to reset.
func (c *contract) Overdue() []engine.OverdueIndex {
	return []engine.OverdueIndex{
		{
			Task: engine.TaskBudget, Family: enginecore.BudgetFamily, Every: resetsEvery, Key: c.keys.IndexBudgetResets,
			Work: c.resetBudgets,
		},
	}
}

var waitFields = []string{"current_waitpoint_id", "current_attempt_index", "lane_id", "flow_id"}

// expireWaits ends suspensions that have timed out. It propagates those that end by it.
func (c *contract) expireWaits(ctx context.Context, p enginecore.Partition, due []string, _ time.Time) (int64, error) {
	ids := engine.ExecutionIDs(due)
	cores, err := c.readCores(ctx, ids, waitFields)
	if err != nil {
		return 0, err
	}
	var calls []enginerpc.ExpireSuspensionCall
	var lanes []enginecore.LaneID
	var flows []enginecore.FlowID
	for i, id := range ids {
		if waitpoint := cores[i]["current_waitpoint_id"]; waitpoint != "" {
			calls = append(calls, enginerpc.ExpireSuspensionCall{
				WaitpointID:  enginecore.WaitpointID(waitpoint),
				AttemptIndex: enginecore.AttemptIndex(cores[i].Int("current_attempt_index")),
				LaneID:       cores[i].Lane(), ExecutionID: id,
			})
			lanes = append(lanes, cores[i].Lane())
			flows = append(flows, enginecore.FlowID(cores[i]["flow_id"]))
		}
	}
	answers := sendContract[enginerpc.ExpireSuspensionReply](ctx, c, calls)
	var ended []contractEnd
	for i, a := range answers {
		switch outcome := string(a.Reply.PublicState); outcome {
		case "failed", "cancelled", "expired":
			ended = append(ended, contractEnd{id: calls[i].ExecutionID, flow: flows[i], outcome: outcome})
		}
	}
	if _, err := c.propagate(ctx, p, "", ended...); err != nil {
		return 0, err
	}
	slices.Sort(lanes)
	for _, lane := range slices.Compact(lanes) {
		c.serveSoon(ctx, p, lane)
		c.tellWork(ctx, p, lane) // some executions become eligible when their wait times out
	}
	return accepted(answers)
}

// closeWaitpoints closes waitpoints that were opened in advance of a wait that did not come in time.
func (c *contract) closeWaitpoints(
	ctx context.Context, p enginecore.Partition, due []string, _ time.Time,
) (int64, error) {
	commands := make(rueidis.Commands, len(due))
	for i, id := range due {
		commands[i] = c.client.B().Hget().Key(c.keys.WaitpointRecord(p,
			enginecore.WaitpointID(id))).Field("execution_id").Build()
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return 0, err
	}
	var calls []enginerpc.CloseWaitpointCall
	for i, id := range due {
		if owner, err := results[i].ToString(); err == nil {
			calls = append(calls, enginerpc.CloseWaitpointCall{
				ExecutionID: enginecore.ExecutionID(owner), WaitpointID: enginecore.WaitpointID(id),
				Reason: "never_committed",
			})
		}
	}
	return accepted(sendContract[enginerpc.CloseWaitpointReply](ctx, c, calls))
}

// resetBudgets resets the usage of due budgets.
func (c *contract) resetBudgets(
	ctx context.Context, p enginecore.Partition, due []string, now time.Time,
) (int64, error) {
	calls := make([]enginerpc.ResetBudgetCall, len(due))
	for i, id := range due {
		calls[i] = enginerpc.ResetBudgetCall{Partition: p, BudgetID: enginecore.BudgetID(id), Now: now}
	}
	return accepted(sendContract[enginerpc.ResetBudgetReply](ctx, c, calls))
}

// accepted counts the calls that succeeded. It ignores refusals of the engine; any other error is returned.
func accepted[R any](answers []engine.CallResult[R]) (int64, error) {
	count := int64(0)
	for _, a := range answers {
		var refusal *enginecore.Error
		if a.Err == nil {
			count++
		} else if !errors.As(a.Err, &refusal) {
			return count, a.Err
		}
	}
	return count, nil
}
