package flowgraph

// Of returns a copy of the graph of a *flow.Definition. It is for packages of this module. Package flow sets it when it
// is initialized, so that its Definition has no method with a type that users cannot name.
var Of func(definition any) *Graph

// OfRun returns the graph that a *runtime.RunDescription describes, which must not be changed; nil for a run that
// stores none. It is for packages of this module, as Of is; package runtime sets it when it is initialized.
var OfRun func(description any) *Graph
