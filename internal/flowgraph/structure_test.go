package flowgraph_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Options do not belong to the structure of a graph, in any part of it; all the rest does.
func TestStructureHash(t *testing.T) {
	t.Parallel()
	base := func() *flowgraph.Graph {
		a := activity.New("a", func(_ context.Context, n int) (int, error) { return n, nil })
		sub := flow.New[int, int]("inner")
		flow.Return(sub, flow.Node(sub, "n", a, sub.Input()))
		inner, err := sub.Build()
		require.NoError(t, err)
		f := flow.New[int, int]("outer")
		one := flow.Node(f, "one", a, f.Input())
		two := flow.Node(f, "two", a, flow.Const(2))
		wait := flow.Waitpoint[int](f, "wait", flow.After(one), activity.Timeout(time.Hour, activity.FailOnTimeout))
		flow.Map(f, "map", a, flow.List(one, two))
		flow.Return(f, flow.Sub(f, "sub", inner, flow.AnyOf(two, wait)))
		def, err := f.Build()
		require.NoError(t, err)
		return flowgraph.Of(def.Internal())
	}
	want := base().StructureHash()
	for name, change := range map[string]func(g *flowgraph.Graph){
		"description": func(g *flowgraph.Graph) { g.Description = "other" },
		"tags":        func(g *flowgraph.Graph) { g.Tags = map[string]string{"team.name": "x"} },
		"deadline":    func(g *flowgraph.Graph) { g.Deadline = time.Hour },
		"retention":   func(g *flowgraph.Graph) { g.Keep = flowgraph.Keep{Failed: time.Hour} },
		"retry":       func(g *flowgraph.Graph) { g.Node("one").Retry = activityspec.NoRetry() },
		"lane":        func(g *flowgraph.Graph) { g.Node("two").Lane = "slow" },
		"timeouts": func(g *flowgraph.Graph) {
			g.Node("one").StartToClose, g.Node("one").HeartbeatTimeout = time.Minute, time.Second
		},
		"tags of a node": func(g *flowgraph.Graph) { g.Node("one").Tags = map[string]string{"team.name": "x"} },
		"wait's timeout": func(g *flowgraph.Graph) { g.Node("wait").Wait.Timeout = time.Minute },
		"map's items":    func(g *flowgraph.Graph) { g.Node("map").Map.AtOnce = 3 },
		"inner priority": func(g *flowgraph.Graph) { g.Node("sub").Sub.Nodes[0].Priority = 3 },
	} {
		g := base().Clone()
		before := g.Hash()
		change(g)
		require.Equal(t, want, g.StructureHash(), name)
		if name != "description" {
			require.NotEqual(t, before, g.Hash(), name)
		}
	}
	for name, change := range map[string]func(g *flowgraph.Graph){
		"name":           func(g *flowgraph.Graph) { g.Name = "other" },
		"activity":       func(g *flowgraph.Graph) { g.Node("one").Activity = "b" },
		"constant":       func(g *flowgraph.Graph) { g.Node("two").Input.Value = []byte("3") },
		"return":         func(g *flowgraph.Graph) { g.Return = "one" },
		"signals":        func(g *flowgraph.Graph) { g.Node("wait").Wait.Signals = []string{"go"} },
		"outcomes":       func(g *flowgraph.Graph) { g.Node("map").Map.Outcomes = true },
		"inner activity": func(g *flowgraph.Graph) { g.Node("sub").Sub.Nodes[0].Activity = "b" },
		"join":           func(g *flowgraph.Graph) { g.Node("sub").Join = flowgraph.Join{} },
		"edge": func(g *flowgraph.Graph) {
			g.Node("two").Upstreams = []flowgraph.Edge{{Node: "one", Kind: flowgraph.AnyOutcome}}
		},
	} {
		g := base().Clone()
		change(g)
		require.NotEqual(t, want, g.StructureHash(), name)
	}
}

// Those who ask for the same graph share it, until others that were asked for later take its room.
func TestGraphs(t *testing.T) {
	t.Parallel()
	stored := func(name string, size int) []byte {
		a := activity.New("a", func(_ context.Context, s string) (string, error) { return s, nil })
		f := flow.New[string, string](name)
		flow.Return(f, flow.Node(f, "second", a, flow.Node(f, "first", a, flow.Const(strings.Repeat("x", size)))))
		def, err := f.Build()
		require.NoError(t, err)
		data, err := flowgraph.Of(def.Internal()).MarshalJSON()
		require.NoError(t, err)
		return data
	}
	var graphs flowgraph.Graphs
	parse := func(data []byte) *flowgraph.Parsed {
		parsed, err := graphs.Parse(data)
		require.NoError(t, err)
		return parsed
	}
	data := stored("kept", 1)
	var all sync.WaitGroup
	found := make([]*flowgraph.Parsed, 8)
	for i := range found {
		all.Go(func() { found[i], _ = graphs.Parse(data) })
	}
	all.Wait()
	one := found[0]
	for _, other := range found {
		require.Same(t, one, other)
	}
	want, err := flowgraph.ParseGraph(data)
	require.NoError(t, err)
	require.Equal(t, want, one.Graph)
	require.Equal(t, map[string]int{"first": 0, "second": 1}, one.Places)
	require.Same(t, &one.Graph.Nodes[1], one.Node("second"))
	require.Nil(t, one.Node("third"))
	require.Nil(t, new(flowgraph.Parsed).Node("first"))

	_, err = graphs.Parse([]byte("{}"))
	require.ErrorIs(t, err, flowgraph.ErrVersion)
	_, again := graphs.Parse([]byte("{}"))
	require.Equal(t, err, again)

	for i := range 100 {
		other := stored(fmt.Sprintf("small-%d", i), 1)
		require.Same(t, parse(other), parse(other))
		require.Same(t, one, parse(data), "it was asked for before each other one")
	}
	for i := range 100 {
		parse(stored(fmt.Sprintf("small-%d", i), 1))
	}
	last := parse(data)
	require.NotSame(t, one, last, "there is room for fewer than 100")
	const large = 1 << 20
	for i := range 10 {
		parse(stored(fmt.Sprintf("large-%d", i), large-2))
	}
	require.NotSame(t, last, parse(data), "there is room for less than 10 MiB")
}
