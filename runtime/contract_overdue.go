package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// overdueEvery is how often keepers in contract mode look for waits and waitpoints whose time is over. Nobody tells them
	// what other programs make due.
	overdueEvery = 5 * time.Second
	// resetsEvery is how often they look for budgets to be reset.
	resetsEvery = 15 * time.Second
	// overduePage bounds what is looked at of one index in one step.
	overduePage = 100
)

// overdueRounds are what keepers in contract mode look after besides their tick: what other programs have suspended, the
// waitpoints that they opened ahead, and their budgets.
func (k *Keeper) overdueRounds(c *contract) []*round {
	keys := c.keys
	return []*round{
		k.overdueRound(DutySuspensionTimeout, enginecore.FlowFamily, overdueEvery, keys.IndexSuspensionTimeout, c.expireWaits),
		k.overdueRound(DutyPendingWaitpointExpiry, enginecore.FlowFamily, overdueEvery, keys.IndexPendingWaitpointExpiry, c.closeWaitpoints),
		k.overdueRound(DutyBudget, enginecore.BudgetFamily, resetsEvery, keys.IndexBudgetResets, c.resetBudgets),
	}
}

// overdueRound works off what is due of an index. Entries that stay are passed over, so that they hide none behind them.
func (k *Keeper) overdueRound(duty Duty, family enginecore.Family, every time.Duration, index func(enginecore.Partition) string,
	work func(ctx context.Context, p enginecore.Partition, due []string, now time.Time) (int64, error),
) *round {
	at := newCursors()
	return &round{
		duties: []Duty{duty}, family: family, every: every, mends: true,
		signs: func(p enginecore.Partition) []string { return []string{index(p)} },
		step: func(ctx context.Context, partitions []enginecore.Partition, only Duty) []outcome {
			outcomes := make([]outcome, len(partitions))
			for i, p := range partitions {
				o := &outcomes[i]
				var next string
				var count int64
				if count, next, o.err = k.workOverdue(ctx, index(p), p, at.get(p), work); o.err == nil {
					o.more, o.next = at.moved(p, next, every, only != "")
					o.done = []dutyDone{{duty: duty, count: count}}
				}
			}
			return outcomes
		},
	}
}

// workOverdue works off one page, from an offset on, and gives the next one; empty at the end.
func (k *Keeper) workOverdue(ctx context.Context, index string, p enginecore.Partition, cursor string,
	work func(context.Context, enginecore.Partition, []string, time.Time) (int64, error),
) (int64, string, error) {
	now, err := k.session.core.Now(ctx)
	if err != nil {
		return 0, cursor, contractReadError("TIME", err)
	}
	var offset int64
	if cursor != "" {
		if offset, err = strconv.ParseInt(cursor, 10, 64); err != nil {
			return 0, "", fmt.Errorf("cursor of an index: %w", err)
		}
	}
	client := k.session.client
	due, err := client.Do(ctx, client.B().Zrangebyscore().Key(index).Min("-inf").Max(decimalText(now.UnixMilli())).
		Limit(offset, overduePage).Build()).AsStrSlice()
	if err != nil {
		return 0, cursor, contractReadError("ZRANGEBYSCORE", err)
	}
	if len(due) == 0 {
		return 0, "", nil
	}
	count, err := work(ctx, p, due, now)
	if err != nil || len(due) < overduePage {
		return count, "", err
	}
	return count, decimalText(offset + max(0, overduePage-count)), nil
}

var waitFields = []string{"current_waitpoint_id", "current_attempt_index", "lane_id"}

// expireWaits ends suspensions whose time is over. What follows from the end of an execution is seen to by who hears of it.
func (c *contract) expireWaits(ctx context.Context, p enginecore.Partition, due []string, _ time.Time) (int64, error) {
	ids := toIDs(due)
	cores, err := c.readCores(ctx, ids, waitFields)
	if err != nil {
		return 0, err
	}
	var calls []enginecore.ExpireSuspensionCall
	var lanes []enginecore.LaneID
	for i, id := range ids {
		if waitpoint := cores[i]["current_waitpoint_id"]; waitpoint != "" {
			calls = append(calls, enginecore.ExpireSuspensionCall{
				WaitpointID: enginecore.WaitpointID(waitpoint), AttemptIndex: enginecore.AttemptIndex(cores[i].int("current_attempt_index")),
				LaneID: laneOf(cores[i]), ExecutionID: id,
			})
			lanes = append(lanes, laneOf(cores[i]))
		}
	}
	answers := sendContract[enginecore.ExpireSuspensionReply](ctx, c, calls)
	slices.Sort(lanes)
	for _, lane := range slices.Compact(lanes) {
		c.tellWork(ctx, p, lane) // some go on when their time is over
	}
	return accepted(answers)
}

// closeWaitpoints closes waitpoints that were opened ahead of a wait that never came.
func (c *contract) closeWaitpoints(ctx context.Context, p enginecore.Partition, due []string, _ time.Time) (int64, error) {
	commands := make(rueidis.Commands, len(due))
	for i, id := range due {
		commands[i] = c.client.B().Hget().Key(c.keys.WaitpointRecord(p, enginecore.WaitpointID(id))).Field("execution_id").Build()
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return 0, err
	}
	var calls []enginecore.CloseWaitpointCall
	for i, id := range due {
		if owner, err := results[i].ToString(); err == nil {
			calls = append(calls, enginecore.CloseWaitpointCall{
				ExecutionID: enginecore.ExecutionID(owner), WaitpointID: enginecore.WaitpointID(id), Reason: "never_committed",
			})
		}
	}
	return accepted(sendContract[enginecore.CloseWaitpointReply](ctx, c, calls))
}

// resetBudgets begins budgets at zero again whose time has come.
func (c *contract) resetBudgets(ctx context.Context, p enginecore.Partition, due []string, now time.Time) (int64, error) {
	calls := make([]enginecore.ResetBudgetCall, len(due))
	for i, id := range due {
		calls[i] = enginecore.ResetBudgetCall{Partition: p, BudgetID: enginecore.BudgetID(id), Now: now}
	}
	return accepted(sendContract[enginecore.ResetBudgetReply](ctx, c, calls))
}

// accepted counts the calls that were carried out. What the engine refuses is for others to mend.
func accepted[R any](answers []answer[R]) (int64, error) {
	count := int64(0)
	for _, a := range answers {
		var refusal *enginecore.Error
		if a.err == nil {
			count++
		} else if !errors.As(a.err, &refusal) {
			return count, a.err
		}
	}
	return count, nil
}
