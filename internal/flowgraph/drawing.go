package flowgraph

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/layout"
)

// Layout lays out the graph. A graph that Validate refuses has no layout.
func (g *Graph) Layout(opts ...layout.Option) (*layout.Layout, error) {
	return layout.New(g.Drawing(), opts...)
}

// Drawing is flow.Drawing.
type Drawing struct {
	TopDown    bool
	Open       []string
	FoldBeyond int
}

func (d Drawing) options() []layout.Option {
	opts := []layout.Option{layout.FitText(), layout.Open(d.Open...)}
	if d.TopDown {
		opts = append(opts, layout.TopDown())
	}
	if d.FoldBeyond != 0 {
		opts = append(opts, layout.FoldBeyond(max(0, d.FoldBeyond)))
	}
	return opts
}

// SVG draws the graph, with the states of its nodes if there are any. It is empty for a graph that Validate refuses.
func (g *Graph) SVG(states map[string]layout.NodeState, d Drawing) string {
	l, err := g.Layout(d.options()...)
	if err != nil {
		return ""
	}
	return l.SVG(states)
}

// Drawing returns the graph in the form that is laid out.
func (g *Graph) Drawing() layout.Graph {
	return *g.drawn(make(map[*Graph]*layout.Graph))
}

// drawn draws each sub-flow once, even if several nodes run it.
func (g *Graph) drawn(known map[*Graph]*layout.Graph) *layout.Graph {
	if there := known[g]; there != nil {
		return there
	}
	d := &layout.Graph{
		Name: g.Name, Description: g.Description, Input: g.InputType, Result: g.OutputType, Return: g.Return,
		Nodes: make([]layout.Node, len(g.Nodes)),
	}
	known[g] = d
	for i := range g.Nodes {
		n := &g.Nodes[i]
		node := layout.Node{
			Name: n.Name, Kind: n.drawnKind(), Text: n.work(), Join: n.drawnJoin(), Finally: n.Finally != nil,
		}
		if n.Sub != nil {
			node.Inner, node.Count = n.Sub.drawn(known), len(n.Sub.Nodes)
		}
		for _, up := range g.shown(n) {
			node.Upstreams = append(node.Upstreams, layout.Edge{
				Node: up.Node, Kind: layout.EdgeKind(up.Kind), Case: up.Case, Data: up.Data,
			})
		}
		d.Nodes[i] = node
	}
	return d
}

func (n *Node) drawnKind() layout.Kind {
	switch {
	case n.Condition != nil:
		return layout.Condition
	case n.IsTimer():
		return layout.Timer
	case n.Wait != nil:
		return layout.Waitpoint
	case n.Loop != nil:
		return layout.Loop
	case n.Expand != nil:
		return layout.Expansion
	case n.Map != nil:
		return layout.Map
	case n.Sub != nil:
		return layout.SubFlow
	}
	return layout.Activity
}

func (n *Node) drawnJoin() string {
	join := ""
	switch n.Join.Policy {
	case JoinAny:
		join = "any"
	case JoinQuorum:
		join = fmt.Sprintf("%d of %d", n.Join.Needed, len(n.Upstreams))
	case JoinAnyFailure:
		return "any failure"
	default:
		return ""
	}
	if n.Join.LetRun {
		join += ", let run"
	}
	return join
}
