package service

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/layout"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// GetRunLayout implements httpapi.GetRunLayout.
func (s *Service) GetRunLayout(ctx context.Context, in *httpapi.GetRunLayoutInput) (*api.RunLayout, error) {
	var options runtime.DescribeOptions
	if !in.States {
		options.Nodes = 1
	}
	d, err := s.describe(ctx, s.run(ctx, in.RunName), options)
	if err != nil {
		return nil, err
	}
	out := &api.RunLayout{Layout: emptyLayout()}
	if graph := flowgraph.View(d.Internal()); graph != nil {
		if out.Layout, err = layoutOf(graph, in.Placing); err != nil {
			return nil, err
		}
	}
	if graph := flowgraph.View(d.Internal()); graph != nil {
		out.Hash = graph.Hash()
	}
	if in.States {
		out.States = statesOf(d, out.Nodes)
	}
	return out, nil
}

// statesOf returns the states of the nodes in their order.
func statesOf(d *runtime.RunDescription, nodes []api.PlacedNode) []api.NodeNow {
	states := make(map[string]api.NodeNow, len(d.Nodes))
	for i := range d.Nodes {
		n := &d.Nodes[i]
		states[n.Name] = api.NodeNow{
			State: string(n.State), Waiting: string(n.Waiting.Reason), Attempts: n.Attempts, StartedAt: n.StartedAt,
			EndedAt: n.CompletedAt, Worker: n.Worker,
		}
	}
	out := make([]api.NodeNow, len(nodes))
	for i, n := range nodes {
		out[i] = states[n.Node]
	}
	return out
}

// GetFlowLayout implements httpapi.GetFlowLayout.
func (s *Service) GetFlowLayout(ctx context.Context, in *httpapi.GetFlowLayoutInput) (*api.Layout, error) {
	d, err := s.client.Flow(in.Flow).Describe(ctx)
	if err != nil {
		return nil, err
	}
	graph, err := flowgraph.ParseGraph(d.Definition)
	if err != nil {
		return nil, fmt.Errorf("graph of flow %q: %w", d.Name, err)
	}
	out, err := layoutOf(graph, in.Placing)
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// emptyLayout is the layout of a run that stores no graph.
func emptyLayout() api.Layout {
	return api.Layout{Nodes: []api.PlacedNode{}, Edges: []api.PlacedEdge{}}
}

// layoutOf lays out a graph, without marks of start and end.
func layoutOf(g *flowgraph.Graph, how httpapi.Placing) (api.Layout, error) {
	fold := layout.FoldBeyond(0)
	if how.Fold > 0 && len(g.Nodes) > how.Fold {
		fold = layout.FoldBeyond(layout.DefaultFoldBeyond)
	}
	l, err := g.Layout(fold, layout.Wrap(float64(how.Wrap)))
	if err != nil {
		return emptyLayout(), err
	}
	if slices.ContainsFunc(l.Nodes, func(n layout.Box) bool { return n.Kind == layout.Fold }) {
		return foldedOf(g, l), nil
	}
	out := emptyLayout()
	out.Width, out.Height = rounded(l.Width), rounded(l.Height)
	places := make(map[string]int, len(l.Nodes))
	for i := range l.Nodes {
		if n := &l.Nodes[i]; n.Kind != layout.Start && n.Kind != layout.End {
			places[n.ID] = len(out.Nodes)
			out.Nodes = append(out.Nodes, placedNode(n))
		}
	}
	out.Edges = placedEdges(l.Edges, places)
	return out, nil
}

// foldedOf returns all nodes and edges of a graph without places, and its folded drawing.
func foldedOf(g *flowgraph.Graph, l *layout.Layout) api.Layout {
	out := emptyLayout()
	out.Width, out.Height = rounded(l.Width), rounded(l.Height)
	all := g.Drawing()
	places := make(map[string]int, len(all.Nodes))
	for i := range all.Nodes {
		n := &all.Nodes[i]
		places[n.Name] = i
		out.Nodes = append(out.Nodes, api.PlacedNode{
			Node: n.Name, Kind: string(n.Kind), Text: n.Text, Join: n.Join, Finally: n.Finally,
		})
	}
	for i := range all.Nodes {
		for _, up := range all.Nodes[i].Upstreams {
			out.Edges = append(out.Edges, api.PlacedEdge{
				From: places[up.Node], To: i, Kind: string(up.Kind), Case: up.Case, Data: up.Data,
			})
		}
	}
	drawn := make(map[string]int, len(l.Nodes))
	for i := range l.Nodes {
		n := &l.Nodes[i]
		if n.Kind == layout.Start || n.Kind == layout.End {
			continue
		}
		fold := placedNode(n)
		if n.Kind == layout.Fold {
			fold.Kind = string(n.Of)
		}
		for _, member := range n.Members {
			fold.Members = append(fold.Members, places[member])
		}
		if len(n.Members) == 0 {
			fold.Members = append(fold.Members, places[n.ID])
		}
		drawn[n.ID] = len(out.Folds)
		out.Folds = append(out.Folds, fold)
	}
	out.FoldEdges = placedEdges(l.Edges, drawn)
	return out
}

func placedNode(n *layout.Box) api.PlacedNode {
	out := api.PlacedNode{
		Node: n.Name, Kind: string(n.Kind), Text: n.Text, Join: n.Join, Finally: n.Finally,
		X: rounded(n.X), Y: rounded(n.Y),
	}
	if n.H != layout.NodeHeight {
		out.Height = rounded(n.H)
	}
	return out
}

// placedEdges returns the lines between nodes that have a place.
func placedEdges(lines []layout.Line, places map[string]int) []api.PlacedEdge {
	out := make([]api.PlacedEdge, 0, len(lines))
	for i := range lines {
		line := &lines[i]
		from, drawn := places[line.From]
		to, also := places[line.To]
		if !drawn || !also {
			continue
		}
		edge := api.PlacedEdge{From: from, To: to, Kind: string(line.Kind), Case: line.Case, Data: line.Data}
		for _, p := range line.Points {
			edge.Points = append(edge.Points, rounded(p.X), rounded(p.Y))
		}
		out = append(out, edge)
	}
	return out
}

func rounded(x float64) int { return int(math.Round(x)) }
