// Package layout computes where to draw the nodes and edges of a flow, and draws them as SVG.
//
// Programs get a layout from what has a graph: Layout and SVG of flow.Definition, of runtime.FlowDescription and of
// runtime.RunDescription. New lays out any Graph. The package knows neither the engine nor Go types of flows.
//
// # The drawing
//
// Nodes stand in layers, by the longest path that leads to them: from left to right, or from the top down with TopDown.
// Edges only lead forward. The order within a layer has few crossings, and is that of the declaration where that costs
// none. Edges are routed at right angles, in the space between layers and between nodes, so they pass under no node;
// edges from one node for one outcome share their way as far as they can. Equal graphs with equal options have equal
// layouts, and states are no part of a layout: a run is laid out once.
//
// A map, a sub-flow, a loop or an expansion is one node. Open draws the nodes of the flow that it runs inside it.
// Nodes that are alike, such as the thousand parts of a fan-out, are folded into one: see FoldBeyond.
//
// A Layout is plain data that encodes to JSON, for programs with a renderer of their own.
package layout
