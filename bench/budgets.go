package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// budgets reports to budgets: entry by entry, and in sums.
func (c *costs) budgets() error {
	const many = 16
	id := enginecore.BudgetID(uuid.NewString())
	p, err := c.core.Partitioning().BudgetPartition(id)
	if err != nil {
		return err
	}
	use := enginerpc.UseBudgetCall{
		Partition: p, BudgetID: id, Declares: true, Dims: []enginerpc.UseBudgetDim{{Name: "calls", Hard: 1 << 40}},
		BudgetDeclaration: enginerpc.BudgetDeclaration{
			Name: "bench", ScopeType: "shared", ScopeID: "bench", Effect: "block", Declared: "block 0 calls:1099511627776:0",
		},
	}
	for _, n := range []int{1, many} {
		err := measured(c, fmt.Sprintf("ffx_use_budget (%d reports)", n), func(i int) (enginerpc.UseBudgetReply, error) {
			use.Entries = nil
			for j := range n {
				use.Entries = append(use.Entries, enginerpc.UseBudgetEntry{
					Kind: "report", Dimension: "calls", Amount: 1, ID: fmt.Sprint(uuid.NewString(), "/1/", j),
					FlowID: enginecore.FlowID(uuid.NewString()), Node: "only", Lease: time.Minute,
				})
			}
			return c.core.UseBudget(c.ctx, use)
		})
		if err != nil {
			return err
		}
	}
	call := enginerpc.CountUsageCall{Partition: p}
	for _, n := range []int{1, many} {
		err := measured(c, fmt.Sprintf("ffx_count_usage (%d sums)", n), func(i int) (enginerpc.CountUsageReply, error) {
			call.Sums = nil
			for j := range n {
				call.Sums = append(call.Sums, enginerpc.UsageSum{
					Partition: int64(p.Index), BudgetID: id, Dimension: "calls", Amount: 7, Account: "bench/" + strconv.Itoa(j),
					Serial: int64(i) + 1, Declares: true, Declared: use.Declared,
				})
			}
			return c.core.CountUsage(c.ctx, call)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
