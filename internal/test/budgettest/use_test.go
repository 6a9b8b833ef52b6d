package budgettest

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// useOf is a call of some entries to a budget without a limit.
func useOf(t *testing.T, core *enginerpc.Conn, entries ...enginerpc.UseBudgetEntry) enginerpc.UseBudgetCall {
	t.Helper()
	id := enginecore.BudgetID(uuid.NewString())
	p, err := core.Partitioning().BudgetPartition(id)
	require.NoError(t, err)
	for i := range entries {
		entries[i].Dimension, entries[i].FlowID, entries[i].Lease = "tokens", enginecore.FlowID(uuid.NewString()), time.Minute
	}
	return enginerpc.UseBudgetCall{
		Partition: p, BudgetID: id, Declares: true, Entries: entries, Dims: []enginerpc.UseBudgetDim{{Name: "tokens"}},
		BudgetDeclaration: enginerpc.BudgetDeclaration{Name: "x", Namespace: "default", ScopeType: "shared", ScopeID: "x", Effect: "fail", Declared: "1"},
	}
}

// The entries of a call are judged together before any of them counts.
func TestEntriesOfOneCall(t *testing.T) {
	t.Parallel()
	const most = 1 << 53
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		refused := func(want string, entries ...enginerpc.UseBudgetEntry) {
			t.Helper()
			call := useOf(t, core, entries...)
			_, err := core.UseBudget(ctx, call)
			require.ErrorContains(t, err, want)
			reply, err := core.GetBudgets(ctx, enginerpc.GetBudgetsCall{Partition: call.Partition, BudgetIDs: []enginecore.BudgetID{call.BudgetID}})
			require.NoError(t, err)
			for _, s := range reply.Budgets {
				require.Zero(t, s.Dims[0].Spent)
			}
		}
		refused("out of range", enginerpc.UseBudgetEntry{Kind: "report", Amount: most - 2, ID: "a"}, enginerpc.UseBudgetEntry{Kind: "report", Amount: most - 2, ID: "b"})
		refused("whole number", enginerpc.UseBudgetEntry{Kind: "report", Amount: 1, ID: "a"}, enginerpc.UseBudgetEntry{Kind: "report", Amount: -1, ID: "b"})
		refused("must begin with", enginerpc.UseBudgetEntry{Kind: "report", Amount: 1, ID: "a"}, enginerpc.UseBudgetEntry{Kind: "reserve", Amount: 1, ID: "nobody's"})

		// A reservation that comes after its release is none.
		late := useOf(t, core,
			enginerpc.UseBudgetEntry{Kind: "release", ID: "{fp:1}:e/1/1"}, enginerpc.UseBudgetEntry{Kind: "reserve", Amount: 5, ID: "{fp:1}:e/1/1"},
			enginerpc.UseBudgetEntry{Kind: "reserve", Amount: 5, ID: "{fp:1}:e/1/2"}, enginerpc.UseBudgetEntry{Kind: "settle", Amount: 7, ID: "{fp:1}:e/1/2"})
		reply, err := core.UseBudget(ctx, late)
		require.NoError(t, err)
		require.Equal(t, []string{"applied", "applied", "ok", "ok"}, []string{reply.Uses[0].State, reply.Uses[1].State, reply.Uses[2].State, reply.Uses[3].State})
		require.EqualValues(t, 7, reply.Uses[3].Spent)
		require.Zero(t, reply.Uses[3].Reserved)
		b.Check(t, invariant.Quiescent)
	})
}

// A listing has the budgets of its namespace and no others, whatever their keys.
func TestBudgetsOfNamespace(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		ref := fabrictype.BudgetName{Name: "tenant", Key: "two words"}
		odd := fabrictype.BudgetName{Name: "tenant", Key: "a\tb"}
		for _, r := range []fabrictype.BudgetName{ref, odd} {
			require.NoError(t, b.Client.Budget(r).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"tokens": 10}}))
		}
		list, err := b.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Len(t, list, 2)
		if b.URL == "" {
			return // an engine in memory has one namespace
		}
		other := enginetest.Open(t, b.Kind, b.URL, b.Prefix, runtime.OpenConfig{Namespace: "other"})
		list, err = other.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Empty(t, list)
		require.NoError(t, other.Client.Budget(ref).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"tokens": 20}}))
		list, err = other.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, ref, list[0].BudgetName)
		require.EqualValues(t, 20, list[0].Amount("tokens").Hard)
	})
}
