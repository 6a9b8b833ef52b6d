package layout

import "errors"

// ErrGraph marks a Graph that cannot be laid out: it has a cycle, a name twice, or an edge from a node that it does not
// have.
var ErrGraph = errors.New("graph cannot be laid out")

// Graph is the input of a layout: nodes and the edges between them, without cycles.
type Graph struct {
	// Name and Description describe the flow.
	Name, Description string
	// Input and Result name the types of the flow's input and result. With Input, a mark is drawn before the nodes
	// without upstreams.
	Input, Result string
	// Return is the name of the node whose result is the flow's; a mark is drawn after it. "" draws none.
	Return string
	// Nodes are in the order of their declaration, which decides where the number of crossings does not.
	Nodes []Node
}

// Node is one node of a Graph.
type Node struct {
	// Name is unique in the graph. "/" is not allowed: it separates the names of nested nodes.
	Name string
	Kind Kind
	// Text names the activity of the node, or the event that it waits for.
	Text string
	// Join states how many upstreams the node needs, such as "any" or "2 of 3"; "" is all of them.
	Join string
	// Finally marks a node that runs however the run ends.
	Finally bool
	// Count is how many nodes the flow has that the node runs, for a SubFlow, a Map or a Loop of one; how many turns a
	// Loop has at most is in its Text.
	Count int
	// Inner is the flow that the node runs; nil for nodes that run an activity.
	Inner *Graph
	// Upstreams are the edges that lead to the node.
	Upstreams []Edge
}

// Edge leads from an upstream to the node that lists it.
type Edge struct {
	// Node is the name of the upstream.
	Node string
	Kind EdgeKind
	// Case is the case of a condition by which the edge is taken, of OnCase; "" for others.
	Case string
	// Data reports whether the node uses the upstream's result.
	Data bool
}

// Kind is the kind of a node. The values are the same as of fabrictype.NodeKind; the kinds from Start on are only in
// layouts.
type Kind string

// The kinds of nodes.
const (
	Activity  Kind = "activity"
	Waitpoint Kind = "waitpoint"
	Timer     Kind = "timer"
	Condition Kind = "condition"
	Map       Kind = "map"
	SubFlow   Kind = "sub_flow"
	Loop      Kind = "loop"
	Expansion Kind = "expansion"
	// Start and End are the marks before the first nodes and after the one whose result is the flow's.
	Start Kind = "start"
	End   Kind = "end"
	// Fold represents several nodes that are alike.
	Fold Kind = "fold"
)

// EdgeKind is the outcome of the upstream that satisfies an edge. The values are the same as in the stored form of a
// graph.
type EdgeKind string

// The kinds of edges.
const (
	OnSuccess EdgeKind = "success_only"
	OnFailure EdgeKind = "on_failure"
	Always    EdgeKind = "always"
	OnCase    EdgeKind = "when"
	OrElse    EdgeKind = "unless_failed"
)
