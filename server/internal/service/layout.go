package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/describe"
	"github.com/flowfabric/flowfabric-go/server/internal/graphlayout"
)

// GetRunLayout implements api.GetRunLayout.
func (s *Service) GetRunLayout(ctx context.Context, in *api.GetRunLayoutInput) (*api.RunLayout, error) {
	var opts []describe.Option
	if !in.States {
		opts = append(opts, describe.Page("", 1))
	}
	d, err := s.run(ctx, in.RunName).Describe(ctx, opts...)
	if err != nil {
		return nil, err
	}
	out := &api.RunLayout{Layout: layoutOf(flowgraph.OfRun(d))}
	if !in.States {
		return out, nil
	}
	states := make(map[string]api.NodeNow, len(d.Nodes))
	for i := range d.Nodes {
		n := &d.Nodes[i]
		states[n.Name] = api.NodeNow{
			State: string(n.State), Waiting: string(n.Waiting.Reason), Attempts: n.Attempts, StartedAt: n.StartedAt,
			EndedAt: n.CompletedAt,
		}
	}
	out.States = make([]api.NodeNow, len(out.Nodes))
	for i, n := range out.Nodes {
		out.States[i] = states[n.Node]
	}
	return out, nil
}

// GetFlowLayout implements api.GetFlowLayout.
func (s *Service) GetFlowLayout(ctx context.Context, in *api.FlowInput) (*api.Layout, error) {
	d, err := s.client.DescribeFlow(ctx, in.Flow)
	if err != nil {
		return nil, err
	}
	graph, err := flowgraph.ParseGraph(d.Definition)
	if err != nil {
		return nil, err
	}
	out := layoutOf(graph)
	return &out, nil
}

// layoutOf places a graph; nil has no nodes.
func layoutOf(g *flowgraph.Graph) api.Layout {
	out := api.Layout{Nodes: []api.PlacedNode{}, Edges: []api.PlacedEdge{}}
	if g == nil {
		return out
	}
	places := make(map[string]int, len(g.Nodes))
	for i := range g.Nodes {
		places[g.Nodes[i].Name] = i
	}
	var edges []graphlayout.Edge
	for to := range g.Nodes {
		for _, e := range drawnEdges(&g.Nodes[to]) {
			from := places[e.Node]
			edges = append(edges, graphlayout.Edge{From: from, To: to})
			out.Edges = append(out.Edges, api.PlacedEdge{
				From: from, To: to, Kind: string(e.Kind), Case: e.Case, Data: e.Data,
			})
		}
	}
	placed := graphlayout.Place(len(g.Nodes), edges)
	out.Width, out.Height = placed.Width, placed.Height
	for i := range g.Nodes {
		node := placedNode(&g.Nodes[i])
		node.X, node.Y = placed.Nodes[i].X, placed.Nodes[i].Y
		out.Nodes = append(out.Nodes, node)
	}
	for i, line := range placed.Lines {
		for _, p := range line {
			out.Edges[i].Points = append(out.Edges[i].Points, p.X, p.Y)
		}
	}
	return out
}

// drawnEdges are the edges of a node that a drawing shows: a node that runs when all others have ended has one from each
// of them, which would hide the rest.
func drawnEdges(n *flowgraph.Node) []flowgraph.Edge {
	if n.Finally == nil {
		return n.Upstreams
	}
	var data []flowgraph.Edge
	for i, e := range n.Upstreams {
		if e.Data || i == len(n.Upstreams)-1 {
			data = append(data, e)
		}
	}
	return data
}

func placedNode(n *flowgraph.Node) api.PlacedNode {
	out := api.PlacedNode{
		Node: n.Name, Activity: n.Activity, Join: string(n.Join.Policy), Needed: n.Join.Needed, Kind: string(kindOf(n)),
	}
	if n.Sub != nil {
		out.Flow = n.Sub.Name
	}
	return out
}

func kindOf(n *flowgraph.Node) describe.Kind {
	switch {
	case n.Loop != nil:
		return describe.Loop
	case n.Expand != nil:
		return describe.Expansion
	case n.Map != nil:
		return describe.Map
	case n.Sub != nil:
		return describe.SubFlow
	case n.IsTimer():
		return describe.Timer
	case n.Wait != nil:
		return describe.Waitpoint
	case n.Condition != nil:
		return describe.Condition
	default:
		return describe.Task
	}
}
