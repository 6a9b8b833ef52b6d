package flow_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

type keyed struct {
	Tenant *struct {
		ID   string    `json:"id"`
		Born time.Time `json:"born"`
	} `json:"tenant"`
	Labels  map[string]string `json:"labels"`
	Any     any               `json:"any"`
	Raw     json.RawMessage   `json:"raw"`
	Lines   []string          `json:"lines"`
	private string
}

func keyedFlow(path ...string) error {
	work := activity.New("work", func(_ context.Context, in keyed) (string, error) { return in.private, nil })
	f := flow.New[keyed, string]("keyed", flow.FairBy(path...), flow.Budget("b", flow.BudgetConfig{Hard: map[string]int64{"tokens": 1}, PerKey: path}))
	flow.Return(f, flow.Node(f, "work", work, f.Input(), activity.Limit("l", activity.LimitConfig{AtOnce: 1, KeyFrom: path})))
	_, err := f.Build()
	return err
}

// A path to a key that no input has is a fault of the option that uses it; a fault of a particular input is none.
func TestKeyPaths(t *testing.T) {
	t.Parallel()
	for _, path := range [][]string{{"tenant", "id"}, {"tenant", "born"}, {"labels", "x"}, {"any"}, {"any", "x"}, {"raw", "x", "y"}} {
		require.NoError(t, keyedFlow(path...), path)
	}
	for _, wrong := range []struct {
		path []string
		says string
	}{
		{[]string{"Tenant"}, `"Tenant": flow_test.keyed has no JSON field "Tenant"; it has "tenant", "labels", "any", "raw", "lines"`},
		{[]string{"private"}, `has no JSON field "private"`},
		{[]string{"tenant", "name"}, `it has "id", "born"`},
		{[]string{"tenant"}, `is not a text, number or boolean`},
		{[]string{"tenant", "id", "x"}, `"tenant.id.x": string has no fields`},
		{[]string{"lines"}, `"lines": []string is not a text, number or boolean`},
	} {
		err := keyedFlow(wrong.path...)
		require.ErrorIs(t, err, flowgraph.ErrUnknownField, wrong.path)
		faults := flow.Faults(err)
		require.Len(t, faults, 3, wrong.path)
		require.ErrorContains(t, faults[0], `flow "keyed": fair_by: no such field: `)
		require.ErrorContains(t, faults[1], `flow "keyed": budgets: no such field: budget "b" takes its key from `)
		require.ErrorContains(t, faults[2], `flow "keyed": node "work": limits: no such field: limit "l" takes its key from `)
		for _, fault := range faults {
			require.ErrorContains(t, fault, wrong.says)
		}
	}
	for _, fault := range flow.Faults(keyedFlow("")) {
		require.ErrorIs(t, fault, flowgraph.ErrOption)
	}
}
