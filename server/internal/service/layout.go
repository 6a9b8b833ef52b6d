package service

import (
	"context"
	"fmt"
	"math"

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
		if out.Layout, err = layoutOf(graph); err != nil {
			return nil, err
		}
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
			EndedAt: n.CompletedAt,
		}
	}
	out := make([]api.NodeNow, len(nodes))
	for i, n := range nodes {
		out[i] = states[n.Node]
	}
	return out
}

// GetFlowLayout implements httpapi.GetFlowLayout.
func (s *Service) GetFlowLayout(ctx context.Context, in *httpapi.FlowInput) (*api.Layout, error) {
	d, err := s.client.Flow(in.Flow).Describe(ctx)
	if err != nil {
		return nil, err
	}
	graph, err := flowgraph.ParseGraph(d.Definition)
	if err != nil {
		return nil, fmt.Errorf("graph of flow %q: %w", d.Name, err)
	}
	out, err := layoutOf(graph)
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
func layoutOf(g *flowgraph.Graph) (api.Layout, error) {
	out := emptyLayout()
	l, err := g.Layout(layout.FoldBeyond(0))
	if err != nil {
		return out, err
	}
	out.Width, out.Height = rounded(l.Width), rounded(l.Height)
	places := make(map[string]int, len(l.Nodes))
	for _, n := range l.Nodes {
		if n.Kind == layout.Start || n.Kind == layout.End {
			continue
		}
		places[n.ID] = len(out.Nodes)
		out.Nodes = append(out.Nodes, api.PlacedNode{
			Node: n.Name, Kind: string(n.Kind), Text: n.Text, Join: n.Join, Finally: n.Finally,
			X: rounded(n.X), Y: rounded(n.Y),
		})
	}
	for _, line := range l.Edges {
		from, drawn := places[line.From]
		to, also := places[line.To]
		if !drawn || !also {
			continue
		}
		edge := api.PlacedEdge{From: from, To: to, Kind: string(line.Kind), Case: line.Case, Data: line.Data}
		for _, p := range line.Points {
			edge.Points = append(edge.Points, rounded(p.X), rounded(p.Y))
		}
		out.Edges = append(out.Edges, edge)
	}
	return out, nil
}

func rounded(x float64) int { return int(math.Round(x)) }
