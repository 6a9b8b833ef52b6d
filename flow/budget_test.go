package flow_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

var spend = activity.New("spend", func(context.Context, map[string]any) (string, error) { return "", nil })

func budgeted(opts ...flow.Option) (*flow.Definition[map[string]any, string], error) {
	f := flow.New[map[string]any, string]("budgeted", opts...)
	flow.Return(f, flow.Node(f, "spend", spend, f.Input()))
	return f.Build()
}

// Budgets survive being stored, in one form whatever the order of the options.
func TestBudgetRoundTrip(t *testing.T) {
	one := flow.Budget("llm", flow.BudgetConfig{Hard: map[string]int64{"tokens": 100}, Soft: map[string]int64{"tokens": 80}, Counted: []string{"calls"}})
	two := flow.Budget("tenant", flow.BudgetConfig{Hard: map[string]int64{"cents": 5}, PerKey: []string{"tenant", "id"}, ResetEvery: time.Hour, OnExceeded: flow.BlockNodes})
	a, err := budgeted(one, two)
	require.NoError(t, err)
	b, err := budgeted(two, flow.Budget("llm", flow.BudgetConfig{Hard: map[string]int64{"tokens": 100}, Soft: map[string]int64{"tokens": 80}, Counted: []string{"calls"}}))
	require.NoError(t, err)
	require.Equal(t, a.Hash(), b.Hash())
	plain, err := budgeted()
	require.NoError(t, err)
	require.NotEqual(t, plain.Hash(), a.Hash())
	data, err := flowgraph.Of(a.Internal()).MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(data), `"budgets":[{"name":"llm","scope":"run","dimensions":[{"name":"calls"},{"name":"tokens","hard":100,"soft":80}],"effect":"fail"},`+
		`{"name":"tenant","scope":"shared","key_from":["tenant","id"],"dimensions":[{"name":"cents","hard":5}],"every_ms":3600000,"effect":"block"}]`)
	parsed, err := flowgraph.ParseGraph(data)
	require.NoError(t, err)
	require.Equal(t, flowgraph.Of(a.Internal()).Budgets, parsed.Budgets)
	require.Equal(t, a.Hash(), parsed.Hash())
}

// Every fault of a budget is reported, with its name.
func TestBudgetFaults(t *testing.T) {
	for says, opts := range map[string][]flow.Option{
		`hard limit of "tokens" is 0, must be 1 to`:         {flow.Budget("b", flow.BudgetConfig{Hard: map[string]int64{"tokens": 0}})},
		`soft limit of "tokens" is -3`:                      {flow.Budget("b", flow.BudgetConfig{Soft: map[string]int64{"tokens": -3}})},
		`PerFlow: must not be set with Shared or PerKey`:    {flow.Budget("b", flow.BudgetConfig{Counted: []string{"x"}, PerFlow: true, Shared: true})},
		`soft limit 9 of "tokens" is above the hard one, 8`: {flow.Budget("b", flow.BudgetConfig{Hard: map[string]int64{"tokens": 8}, Soft: map[string]int64{"tokens": 9}})},
		`it has no dimension`:                               {flow.Budget("b", flow.BudgetConfig{})},
		`a field has no name`:                               {flow.Budget("b", flow.BudgetConfig{Hard: map[string]int64{"tokens": 1}, PerKey: []string{"a", ""}})},
		`reset every 1ms, must be `:                         {flow.Budget("b", flow.BudgetConfig{Hard: map[string]int64{"tokens": 1}, ResetEvery: time.Millisecond})},
		`effect "explode" is none of`:                       {flow.Budget("b", flow.BudgetConfig{Hard: map[string]int64{"tokens": 1}, OnExceeded: "explode"})},
		`name is used twice: budget "b"`:                    {flow.Budget("b", flow.BudgetConfig{Hard: map[string]int64{"x": 1}}), flow.Budget("b", flow.BudgetConfig{Hard: map[string]int64{"y": 1}, PerFlow: true})},
		`dimension: `:                                       {flow.Budget("b", flow.BudgetConfig{Hard: map[string]int64{"two words": 1}})},
		`budget "b c"`:                                      {flow.Budget("b c", flow.BudgetConfig{Hard: map[string]int64{"x": 1}})},
		`17 dimensions, at most 16`:                         {flow.Budget("b", flow.BudgetConfig{Counted: strings.Split("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", ",")})},
	} {
		_, err := budgeted(opts...)
		require.ErrorContains(t, err, says)
	}
}
