package flow_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

var (
	growItem  = activity.New("grow.item", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	growUntil = activity.New("grow.until", func(_ context.Context, n int) (bool, error) { return n > 9, nil }, activity.Lane("judges"))
	growPlan  = activity.New("grow.plan", func(_ context.Context, n int) (flow.Plan[int], error) { return flow.Done(n) })
)

// growBody is a flow from a number to a number.
func growBody(t testing.TB, name string, item *activity.Activity[int, int]) *flow.Definition[int, int] {
	t.Helper()
	f := flow.New[int, int](name)
	flow.Return(f, flow.Node(f, "item", item, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// growth is a flow with each kind of node that grows.
func growth(t testing.TB) *flow.Definition[int, []int] {
	t.Helper()
	body := growBody(t, "body", growItem)
	f := flow.New[int, []int]("growth")
	turned := flow.Loop(f, "loop", body, growUntil, f.Input(), 7, flow.Tag("team.name", "a"))
	planned := flow.Expand(f, "expand", growPlan, turned, flow.MayRun(growItem, childItem), flow.MayRun(growItem), flow.ExpandDepth(3))
	list := flow.Node(f, "list", childList, planned)
	flow.Return(f, flow.MapFlow(f, "rows", body, list, flow.ItemsAtOnce(2), activity.Retry(activity.RetryPolicy{Attempts: 2, Factor: 1})))
	flow.MapFlowOutcomes(f, "tolerant", body, list, flow.MaxMapItems(5))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func TestGrowthGolden(t *testing.T) {
	t.Parallel()
	def := growth(t)
	require.Len(t, def.Handlers(), 5)
	data, err := flowgraph.Of(def.Internal()).MarshalJSON()
	require.NoError(t, err)
	golden(t, "growth.json", string(indentedJSON(t, data)))
	goldenViews(t, "growth", def)
	again, err := flowgraph.ParseGraph(data)
	require.NoError(t, err)
	require.Equal(t, flowgraph.Of(def.Internal()), again)
	require.Equal(t, "judges", again.Node("loop").Lane)
	require.Equal(t, []string{"child.item", "child.list", "grow.item", "grow.plan", "grow.until"}, again.Activities())
	clone := again.Clone()
	clone.Node("expand").Expand.MayRun[0] = "x"
	clone.Node("loop").Loop.MaxTurns = 1
	require.Equal(t, flowgraph.Of(def.Internal()), again)
}

func TestGrowthFaults(t *testing.T) {
	t.Parallel()
	type builder = flow.Builder[int, struct{}]
	body := growBody(t, "body", growItem)
	g := flow.New[struct{}, struct{}]("nothing")
	flow.Node(g, "n", ident[struct{}]("nothing"), g.Input())
	nothing, err := g.Build()
	require.NoError(t, err)
	for _, x := range []struct {
		name, want string
		kind       error
		declare    func(*builder)
	}{
		{"no turns", "0: must be 1 to 1000", flowgraph.ErrLoop, func(f *builder) { flow.Loop(f, "x", body, growUntil, f.Input(), 0) }},
		{"many turns", "1001: must be 1 to 1000", flowgraph.ErrLoop, func(f *builder) { flow.Loop(f, "x", body, growUntil, f.Input(), 1001) }},
		{"no body", "it is nil", flowgraph.ErrSubFlow, func(f *builder) { flow.Loop(f, "x", nil, growUntil, f.Input(), 1) }},
		{"no condition", "", flowgraph.ErrNilActivity, func(f *builder) { flow.Loop(f, "x", body, nil, f.Input(), 1) }},
		{"no state", "returns nothing", flowgraph.ErrLoop, func(f *builder) {
			never := activity.New("never", func(context.Context, struct{}) (bool, error) { return false, nil })
			flow.Loop(f, "x", nothing, never, flow.Const(struct{}{}), 1)
		}},
		{"items of a loop", "is for nodes made by Map", flowgraph.ErrOption, func(f *builder) { flow.Loop(f, "x", body, growUntil, f.Input(), 1, flow.ItemsAtOnce(1)) }},
		{"timeout of a loop", "are said in the flow", flowgraph.ErrOption, func(f *builder) {
			flow.Loop(f, "x", body, growUntil, f.Input(), 1, activity.StartToClose(1e9))
		}},
		{"deep", "65: must be 1 to 64", flowgraph.ErrExpand, func(f *builder) { flow.Expand(f, "x", growPlan, f.Input(), flow.ExpandDepth(65)) }},
		{"flat", "0: must be 1 to 64", flowgraph.ErrExpand, func(f *builder) { flow.Expand(f, "x", growPlan, f.Input(), flow.ExpandDepth(0)) }},
		{"nil of MayRun", "of MayRun", flowgraph.ErrNilActivity, func(f *builder) {
			flow.Expand(f, "x", growPlan, f.Input(), flow.MayRun(growItem, (*activity.Activity[int, int])(nil)))
		}},
		{"no plan", "", flowgraph.ErrNilActivity, func(f *builder) { flow.Expand[int, int](f, "x", nil, f.Input()) }},
		{"MayRun elsewhere", "is for nodes made by Expand", flowgraph.ErrOption, func(f *builder) { flow.Node(f, "x", growItem, f.Input(), flow.MayRun(growItem)) }},
		{"two of a name", "another activity of this flow", flowgraph.ErrInvalidActivity, func(f *builder) {
			flow.Expand(f, "x", growPlan, f.Input(), flow.MayRun(growItem, ident[int]("grow.item")))
		}},
		{"items", "MaxMapItems(0)", flowgraph.ErrOption, func(f *builder) { flow.MapFlow(f, "x", body, flow.Const([]int{1}), flow.MaxMapItems(0)) }},
		{"limit of a map of a flow", "are said in the flow", flowgraph.ErrOption, func(f *builder) {
			flow.MapFlow(f, "x", body, flow.Const([]int{1}), activity.Limit("l", activity.LimitConfig{AtOnce: 1}))
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			f := flow.New[int, struct{}]("faulty")
			x.declare(f)
			_, err := f.Build()
			require.ErrorIs(t, err, x.kind)
			require.ErrorContains(t, err, x.want)
		})
	}
	for stored, kind := range map[string]error{
		`{"name":"x","activity":"a","loop":{"max_turns":1},"input":{"input":true}}`:                          flowgraph.ErrLoop,
		`{"name":"x","activity":"a","loop":{"max_turns":1},"expand":{"max_depth":1},"input":{"input":true}}`: flowgraph.ErrOption,
		`{"name":"x","activity":"a","expand":{"max_depth":1,"may_run":["b","a"]},"input":{"input":true}}`:    flowgraph.ErrExpand,
		`{"name":"x","sub_of":"y","input":{"input":true}}`:                                                   flowgraph.ErrSubFlow,
		`{"name":"x","activity":"a","map":{"max_items":1},"expand":{"max_depth":1},"input":{"input":true}}`:  flowgraph.ErrOption,
	} {
		_, err := flowgraph.ParseGraph([]byte(`{"version":1,"name":"f","nodes":[` + stored + `]}`))
		require.ErrorIs(t, err, kind, stored)
	}
}

// A plan keeps its form, and is refused when it is none.
func TestPlan(t *testing.T) {
	t.Parallel()
	plan, err := flow.PlanOf(growBody(t, "body", growItem), 7)
	require.NoError(t, err)
	require.Contains(t, plan.Outline(), "item  grow.item")
	data, err := json.Marshal(plan)
	require.NoError(t, err)
	var again flow.Plan[int]
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, plan, again)
	done, err := flow.Done(7)
	require.NoError(t, err)
	require.Empty(t, done.Outline())
	data, err = json.Marshal(done)
	require.NoError(t, err)
	require.JSONEq(t, `{"value":7}`, string(data))
	require.ErrorContains(t, json.Unmarshal([]byte(`{}`), &again), "neither a graph nor a value")
	require.Error(t, json.Unmarshal([]byte(`{"graph":{"version":1,"name":"f","nodes":[]},"input":1}`), &again))
	_, err = flow.PlanOf[int, int](nil, 1)
	require.ErrorIs(t, err, flow.ErrInvalid)
	_, err = flow.Done(func() {})
	require.Error(t, err)
}
