package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// resetsEvery is the interval at which keepers check for budgets to reset.
const resetsEvery = 15 * time.Second

// Overdue returns the indexes that keepers work off besides the tick: the budgets to reset.
func (c *Keeper) Overdue() []engine.OverdueIndex {
	return []engine.OverdueIndex{
		{
			Task: engine.TaskBudget, Family: keyspace.BudgetFamily, Every: resetsEvery, Key: c.Keys.IndexBudgetResets,
			Work: c.resetBudgets,
		},
	}
}

// resetBudgets resets the usage of due budgets. The error joins an engine.ItemError for each that could not be reset.
func (c *Keeper) resetBudgets(
	ctx context.Context, p keyspace.Partition, due []string, now time.Time,
) (count int64, faults error) {
	calls := make([]enginerpc.ResetBudgetCall, len(due))
	for i, id := range due {
		calls[i] = enginerpc.ResetBudgetCall{Partition: p, BudgetID: enginecore.BudgetID(id), Now: now}
	}
	for i, a := range link.Send[enginerpc.ResetBudgetReply](ctx, c.Link, calls) {
		var refusal *enginecore.Error
		switch {
		case a.Err == nil:
			count++
		case retry.IsUnavailable(a.Err):
			return count, a.Err
		case !errors.As(a.Err, &refusal):
			faults = errors.Join(faults, &engine.ItemError{Item: due[i], Err: a.Err})
		}
	}
	return count, faults
}
