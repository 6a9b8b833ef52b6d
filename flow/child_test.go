package flow_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

var (
	childList = activity.New("child.list", func(_ context.Context, n int) ([]int, error) { return make([]int, n), nil })
	childItem = activity.New("child.item", func(_ context.Context, n int) (int, error) { return n, nil }, activity.Lane("items"))
)

// mapAndSub is a flow with a map, and a sub-flow around another one.
func mapAndSub(t *testing.T, opts ...flow.NodeOption) *flow.Definition[int, []int] {
	t.Helper()
	inner := flow.New[int, []int]("inner")
	flow.Return(inner, flow.Map(inner, "each", childItem, flow.Node(inner, "list", childList, inner.Input()), opts...))
	in, err := inner.Build()
	require.NoError(t, err)
	f := flow.New[int, []int]("outer")
	flow.Return(f, flow.Sub(f, "part", in, f.Input(), flow.Tag("team.name", "a")))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func TestChildNodesAreStored(t *testing.T) {
	def := mapAndSub(t, flow.ItemsAtOnce(3), flow.MaxMapItems(50))
	require.Len(t, def.Handlers(), 2, "the activities of sub-flows are the flow's")
	data, err := json.Marshal(flowgraph.Of(def.Internal()))
	require.NoError(t, err)
	read, err := flowgraph.ParseGraph(data)
	require.NoError(t, err)
	require.Equal(t, flowgraph.Of(def.Internal()), read)
	require.Equal(t, def.Hash(), read.Hash())
	each := read.Node("part").Sub.Node("each")
	require.Equal(t, &flowgraph.MapSpec{MaxItems: 50, AtOnce: 3}, each.Map)
	require.NotEqual(t, def.Hash(), mapAndSub(t, flow.ItemsAtOnce(4), flow.MaxMapItems(50)).Hash(), "the nodes of a sub-flow count")
	require.Equal(t, "default", read.Node("part").Lane, "the lane of its first activity")

	clone := read.Clone()
	clone.Node("part").Sub.Node("each").Map.AtOnce = 9
	require.Equal(t, 3, each.Map.AtOnce)
}

func TestChildNodesAreDrawn(t *testing.T) {
	g := flowgraph.Of(mapAndSub(t, flow.ItemsAtOnce(3)).Internal())
	require.Contains(t, g.Mermaid(), `n1[["part<br/>flow inner"]]`)
	require.Contains(t, g.Node("part").Sub.DOT(), `n2 [shape=box, peripheries=2, label="each\nchild.item for each item, 3 at once"]`)
	require.Contains(t, g.Outline(), "part  flow inner  <- input")
}

func TestChildNodeFaults(t *testing.T) {
	build := func(declare func(f *flow.Builder[int, struct{}])) error {
		f := flow.New[int, struct{}]("faulty")
		declare(f)
		_, err := f.Build()
		return err
	}
	items := flow.Const([]int{1})
	raw := activity.New("child.raw", func(_ context.Context, n int) (int, error) { return n, nil }, activity.WithCodec(rawCodec{}))
	good := mapAndSub(t)
	for _, c := range []struct {
		name    string
		kind    error
		says    string
		declare func(f *flow.Builder[int, struct{}])
	}{
		{"no items", flowgraph.ErrOption, "MaxMapItems(0): must be 1 to 10000", func(f *flow.Builder[int, struct{}]) {
			flow.Map(f, "m", childItem, items, flow.MaxMapItems(0))
		}},
		{"too many items", flowgraph.ErrOption, "MaxMapItems(10001)", func(f *flow.Builder[int, struct{}]) {
			flow.Map(f, "m", childItem, items, flow.MaxMapItems(10_001))
		}},
		{"none at once", flowgraph.ErrOption, "ItemsAtOnce(-1)", func(f *flow.Builder[int, struct{}]) {
			flow.Map(f, "m", childItem, items, flow.ItemsAtOnce(-1))
		}},
		{"option of a map", flowgraph.ErrOption, "ItemsAtOnce is for nodes made by Map", func(f *flow.Builder[int, struct{}]) {
			flow.Node(f, "n", childItem, f.Input(), flow.ItemsAtOnce(2))
		}},
		{"codec", flowgraph.ErrCodec, "the items of a map are json", func(f *flow.Builder[int, struct{}]) {
			flow.Map(f, "m", raw, flow.Node(f, "list", childList, f.Input()))
		}},
		{"nil activity", flowgraph.ErrNilActivity, `node "m"`, func(f *flow.Builder[int, struct{}]) {
			flow.Map[int, int](f, "m", nil, items)
		}},
		{"nil items", flowgraph.ErrNilBinding, `node "m"`, func(f *flow.Builder[int, struct{}]) {
			flow.Map(f, "m", childItem, nil)
		}},
		{"nil flow", flowgraph.ErrSubFlow, "it is nil", func(f *flow.Builder[int, struct{}]) {
			flow.Sub[int, int](f, "s", nil, f.Input())
		}},
		{"empty definition", flowgraph.ErrSubFlow, "it is nil, or was not made by Build", func(f *flow.Builder[int, struct{}]) {
			flow.Sub(f, "s", &flow.Definition[int, int]{}, f.Input())
		}},
		{"options of a sub-flow", flowgraph.ErrOption, "are said in the flow that the node runs", func(f *flow.Builder[int, struct{}]) {
			flow.Sub(f, "s", good, f.Input(), activity.StartToClose(1000))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := build(c.declare)
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.says)
			if c.name != "codec" { // which the list has a fault of, too
				require.Len(t, flow.Faults(err), 1, "%v", err)
			}
		})
	}
}

// A worker could not distinguish two activities of one name, in whichever flow they are.
func TestSubFlowSharesNames(t *testing.T) {
	other := activity.New("child.item", func(_ context.Context, n int) (int, error) { return n, nil })
	f := flow.New[int, struct{}]("outer")
	flow.Node(f, "n", other, f.Input())
	flow.Sub(f, "s", mapAndSub(t), f.Input())
	_, err := f.Build()
	require.ErrorIs(t, err, flowgraph.ErrInvalidActivity)
	require.ErrorContains(t, err, `"child.item"`)
}

func TestSubFlowDepth(t *testing.T) {
	inner := flow.New[int, int]("flow1")
	flow.Return(inner, flow.Node(inner, "n", childItem, inner.Input()))
	def, err := inner.Build()
	for depth := 2; depth <= flowgraph.MaxSubDepth; depth++ {
		require.NoError(t, err, "depth %d", depth)
		f := flow.New[int, int]("flow" + strings.Repeat("i", depth))
		flow.Return(f, flow.Sub(f, "s", def, f.Input()))
		def, err = f.Build()
	}
	require.NoError(t, err)
	f := flow.New[int, int]("too-deep")
	flow.Return(f, flow.Sub(f, "s", def, f.Input()))
	_, err = f.Build()
	require.ErrorIs(t, err, flowgraph.ErrSubFlow)
	require.ErrorContains(t, err, "nested deeper than 8")
}
