package service

import (
	"context"
	"math"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/flow/layout"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// GetRunLayout implements api.GetRunLayout.
func (s *Service) GetRunLayout(ctx context.Context, in *api.GetRunLayoutInput) (*api.RunLayout, error) {
	var opts []runtime.DescribeOption
	if !in.States {
		opts = append(opts, runtime.WithPage("", 1))
	}
	d, err := s.describe(ctx, s.run(ctx, in.RunName), opts...)
	if err != nil {
		return nil, err
	}
	out := &api.RunLayout{Layout: layoutOf(d.Layout(layout.FoldBeyond(0)))}
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

// GetFlowLayout implements api.GetFlowLayout.
func (s *Service) GetFlowLayout(ctx context.Context, in *api.FlowInput) (*api.Layout, error) {
	d, err := s.client.DescribeFlow(ctx, in.Flow)
	if err != nil {
		return nil, err
	}
	drawn, err := d.Layout(layout.FoldBeyond(0))
	if err != nil {
		return nil, err
	}
	out := layoutOf(drawn)
	return &out, nil
}

// layoutOf converts a drawing: without the marks of start and end, which are no nodes.
func layoutOf(l *layout.Layout) api.Layout {
	out := api.Layout{Nodes: []api.PlacedNode{}, Edges: []api.PlacedEdge{}}
	if l == nil {
		return out
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
	return out
}

func rounded(x float64) int { return int(math.Round(x)) }
