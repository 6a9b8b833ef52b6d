package flowgraph

// Handle carries a graph from a flow.Definition or a runtime.RunDescription to packages of this module; programs can do
// nothing with it.
type Handle struct{ graph *Graph }

// HandleOf returns the handle of a graph.
func HandleOf(g *Graph) Handle { return Handle{g} }

// Of returns a copy of the graph of a handle.
func Of(h Handle) *Graph { return h.graph.Clone() }

// View returns the graph of a handle, which must not be changed; nil for a run that stores none.
func View(h Handle) *Graph { return h.graph }
