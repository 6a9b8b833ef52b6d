package flowgraph

import "github.com/flowfabric/flowfabric-go/internal/activityspec"

// StructureHash is the hash of the structure of a graph, which determines the result of a run: its nodes with their
// activities, waits, maps and sub-flows, their edges and joins, their inputs, and codecs. The rest are options: how
// often, how long, when, where and in which order the nodes run, and how long the run is stored. Graphs that differ
// only in options have the same structure.
//
// Everything that withoutOptions does not remove is structure, so new kinds of nodes and edges are.
func (g *Graph) StructureHash() string { return g.Clone().withoutOptions().Hash() }

// withoutOptions sets the options of g to their defaults and returns g.
func (g *Graph) withoutOptions() *Graph {
	g.Description, g.Tags, g.Deadline, g.FairBy, g.Keep, g.Budgets = "", nil, 0, nil, Keep{}, nil
	for i := range g.Nodes {
		n := &g.Nodes[i]
		n.Options, n.Tags = activityspec.DefaultOptions(), nil
		if n.Wait != nil {
			n.Wait.Timeout, n.Wait.OnTimeout, n.Wait.WaitText = 0, "", activityspec.WaitText{}
		}
		if n.Map != nil {
			n.Map.MaxItems, n.Map.AtOnce = 0, 0
		}
		if n.Sub != nil {
			n.Sub.withoutOptions()
		}
	}
	return g
}
