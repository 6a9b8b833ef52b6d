package budgettest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The reference of a listed budget leads to that budget, in every call.
func TestBudgetRefsFromList(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		odd := fabrictype.BudgetName{Name: "tenant", Key: "a\tb"}
		require.NoError(t, b.Client.Budget(odd).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 5}}))
		spend := activity.New("spend", func(ctx context.Context, n int) (int, error) { return n, activity.ReportUsage(ctx, "calls", 1) })
		inner := flow.New[int, int]("inner")
		flow.Return(inner, flow.Node(inner, "spend", spend, inner.Input()))
		sub, err := inner.Build()
		require.NoError(t, err)
		f := flow.New[int, int]("outer", flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}}))
		flow.Return(f, flow.Sub(f, "sub", sub, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		work(t, b, def)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)

		own := fabrictype.BudgetName{Name: "calls", Flow: "outer", Run: run.ID(), FlowID: string(run.FlowID())}
		list, err := b.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, own, list[0].BudgetName)
		require.EqualValues(t, run.FlowID(), list[0].FlowID)
		require.Equal(t, odd, list[1].BudgetName)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, own, d.Budgets[0].BudgetName)
		d, err = b.Client.Run(d.Nodes[0].Child.Flow, d.Nodes[0].Child.Run).Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, own, d.Budgets[0].BudgetName, "of the run that it belongs to")

		for _, s := range list {
			require.NoError(t, b.Client.Budget(s.BudgetName).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 50}}))
			require.NoError(t, b.Client.Budget(s.BudgetName).Reset(ctx))
			now, err := b.Client.Budget(s.BudgetName).Describe(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 50, now.Amount("calls").Hard)
			require.Zero(t, now.Amount("calls").Spent)
		}
		list, err = b.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Len(t, list, 2, "no other one was made")
		for _, s := range list {
			require.EqualValues(t, 50, s.Amount("calls").Hard)
			require.NoError(t, b.Client.Budget(s.BudgetName).Delete(ctx))
		}
		list, err = b.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Empty(t, list)
		b.Settle(t)
	})
}

// The reference of a budget whose run is gone names no other one.
func TestReferenceOfAPurgedRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		spend := activity.New("spend", func(ctx context.Context, s string) (string, error) { return s, activity.ReportUsage(ctx, "calls", 1) })
		def := fan(t, "purged", spend, 1, flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}}))
		run := start(ctx, t, b, def, "x")
		work(t, b, def)
		_, err := run.Result(ctx)
		require.NoError(t, err)
		core := engine.ConnOf(b.Engine.Internal())
		p, err := core.FlowPartition(run.FlowID())
		require.NoError(t, err)
		// Not by the client, which removes the budget at once.
		for more := true; more; {
			reply, err := core.PurgeFlow(ctx, enginerpc.PurgeFlowCall{Partition: p, FlowID: run.FlowID()})
			require.NoError(t, err)
			more = reply.More
		}
		list, err := b.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Len(t, list, 1)
		ref := list[0].BudgetName
		require.Equal(t, fabrictype.BudgetName{Name: "calls", FlowID: string(run.FlowID())}, ref)
		other := fabrictype.BudgetName{Name: "calls", Flow: "purged", Run: "other", FlowID: string(run.FlowID())}
		for _, ref := range []fabrictype.BudgetName{ref, other} {
			_, readErr := b.Client.Budget(ref).Describe(ctx)
			for _, err := range []error{
				readErr, b.Client.Budget(ref).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 9}}), b.Client.Budget(ref).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 9}}),
				b.Client.Budget(ref).Reset(ctx), b.Client.Budget(ref).Delete(ctx),
			} {
				require.ErrorIs(t, err, runtime.ErrInvalid)
				require.ErrorContains(t, err, string(run.FlowID()))
			}
		}
		list, err = b.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.EqualValues(t, 5, list[0].Amount("calls").Hard)
		own := fabrictype.BudgetName{Name: "calls", Flow: "purged", Run: run.ID(), FlowID: string(run.FlowID())}
		require.NoError(t, b.Client.Budget(own).Delete(ctx), "with all names it is that budget")
		list, err = b.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Empty(t, list)
	})
}
