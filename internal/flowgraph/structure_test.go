package flowgraph_test

import (
	"context"
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
