package flowgraph

import "github.com/flowfabric/flowfabric-go/internal/activityspec"

// StructureHash is the hash of the structure of a graph: what a run computes. That is its nodes with their activities,
// waits, maps and sub-flows, their edges and joins, their inputs, and codecs. The rest are options: how often, how
// long, when, where and in what order that is done, and how long it is kept. Graphs that differ in options alone have
// the same structure.
//
// What is not named by withoutOptions is structure, so a new kind of node or edge is.
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
