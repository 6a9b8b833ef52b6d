package flowgraph

// Of returns a copy of the graph of a *flow.Definition. It is for packages of this module. Package flow sets it when it
// is initialized, so that its Definition has no method with a type that users cannot name.
var Of func(definition any) *Graph
