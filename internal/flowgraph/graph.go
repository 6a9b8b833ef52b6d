package flowgraph

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// OrderField names the list that contains an edge without data, in the stored form and in faults.
func OrderField(kind EdgeKind) string {
	if kind == SuccessOnly {
		return "after"
	}
	return string(kind)
}

// DataEdges returns the edges that an input implies.
func DataEdges(input Expr) []Edge {
	names := input.InputNodes()
	if len(names) == 0 {
		return nil
	}
	edges := make([]Edge, len(names))
	for i, name := range names {
		edges[i] = Edge{Node: name, Kind: input.edgeKind(name), Data: true}
	}
	return edges
}

// graphVersion is the version of the JSON form that this package writes. It reads no other.
const graphVersion = 1

// Graph is a flow without its Go types, in the form that is stored with a run, drawn and executed. Build creates valid
// graphs; Validate checks one that was created or changed by hand. Its methods only read it.
type Graph struct {
	Name        string
	Description string
	Tags        map[string]string
	// Codec is the name of the codec of the flow's input and result.
	Codec string
	// InputType and OutputType are Go type names, for display only.
	InputType, OutputType string
	// Deadline limits a run, from its start to its end; 0 means unlimited. Whole milliseconds.
	Deadline time.Duration
	// FairBy is the path of field names in the flow's input to the fairness key, by which runs share a lane. Empty is
	// no key.
	FairBy []string
	// Keep is the retention of a run after its end.
	Keep Keep
	// Budgets bound the usage of all nodes together, by name.
	Budgets []Budget
	// Depth is how deep the run is nested in runs of plans, and DepthLimit how deep the nodes around it allow; both are
	// 0 for others.
	Depth, DepthLimit int
	// Return is the node whose result is the flow's; "" when the flow has none.
	Return string
	// Nodes are in the order of their declaration.
	Nodes []Node
}

// Node is one node of a Graph: one that runs an activity, once or, if Map is set, for each item of a list; if Wait is
// set, a waitpoint; if Sub is set, one that runs another flow.
type Node struct {
	Name string
	// Activity is the name of the activity that a worker runs for the node; "" for a waitpoint and a sub-flow. The
	// activity of a loop decides whether the loop ends.
	Activity string
	// Map defines how the activity, or the flow in Sub, is run for each item of the node's input, a list; nil for other
	// nodes. With Map, Options apply to the items.
	Map *MapSpec
	// Sub is the flow that the node runs; nil for other nodes. It must not be changed. The node has that flow's codec,
	// and only the Options Retry, Lane and Priority.
	Sub *Graph
	// SubOf is the name of an earlier node with the same Sub, which is stored once; empty for others.
	SubOf string
	// Loop makes the node run Sub until Activity ends the loop; nil for other nodes.
	Loop *LoopSpec
	// Expand makes the node run the plan that Activity returns; nil for other nodes.
	Expand *ExpandSpec
	// Condition makes the node one that decides which branches run; nil for other nodes. Its codec is JSON.
	Condition *Condition
	// Finally makes the node run when all others have ended; nil for other nodes.
	Finally *Finally
	// Wait defines the signals or the time that a waitpoint waits for; nil for other nodes. A waitpoint has no input
	// unless it is a timer that takes its time from there, its codec is JSON, and its Options are WaitpointOptions.
	Wait *WaitSpec
	// Codec is the name of the codec of the node's input and result.
	Codec string
	// Options are the activity's options, overridden by the node's.
	activityspec.Options
	Tags map[string]string
	// Input defines the node's input.
	Input Expr
	// Upstreams are the edges that lead to the node: first those that carry data, in the order of InputNodes, then the
	// others by kind (SuccessOnly, OnFailureOnly, AnyOutcome, WhenCase) and in the order of their declaration. Each
	// upstream occurs once.
	Upstreams []Edge
	// Join decides from all edges whether the node starts.
	Join Join
}

// WaitSpec defines the signals or the time that a waitpoint waits for.
type WaitSpec struct {
	activityspec.Wait
	// Collect makes the result the list of all signals that ended the wait, not the payload of the last one.
	Collect bool
	// Approval makes a decisive signal fail the node, with the category "rejected".
	Approval bool
	// Type is the Go type of the payload, for display only.
	Type string
	// Timer makes the waitpoint a timer; nil for others.
	Timer *TimerSpec
}

// Edge leads from an upstream to the node that lists it.
type Edge struct {
	Node string // the upstream
	Kind EdgeKind
	// Data is true when the node's input uses the upstream's result.
	Data bool
	// Case is the case of the upstream's Condition that satisfies the edge, of kind WhenCase; "" for others.
	Case string
}

// EdgeKind is the outcome of the upstream that satisfies the edge.
type EdgeKind string

// The kinds of edges. A node whose edge can no longer be satisfied is skipped.
const (
	// SuccessOnly is satisfied when the upstream has succeeded.
	SuccessOnly EdgeKind = "success_only"
	// OnFailureOnly is satisfied when the upstream has failed, expired or been cancelled; not when it was skipped.
	OnFailureOnly EdgeKind = "on_failure"
	// AnyOutcome is satisfied when the upstream has ended in any way, including skipped.
	AnyOutcome EdgeKind = "always"
	// WhenCase is satisfied when the upstream, a condition, has decided for the edge's case.
	WhenCase EdgeKind = "when"
	// UnlessFailed is satisfied when the upstream has succeeded, or was skipped for a condition. It is the kind of the
	// edges of ExprOrElse, which carry data.
	UnlessFailed EdgeKind = "unless_failed"
)

// OrderKinds are the kinds in the order in which edges without data are listed.
var OrderKinds = [...]EdgeKind{SuccessOnly, OnFailureOnly, AnyOutcome, WhenCase}

// Node returns the node of that name, nil if there is none. It searches linearly.
func (g *Graph) Node(name string) *Node {
	for i := range g.Nodes {
		if g.Nodes[i].Name == name {
			return &g.Nodes[i]
		}
	}
	return nil
}

// edgeCount returns the number of edges.
func (g *Graph) edgeCount() int {
	count := 0
	for i := range g.Nodes {
		count += len(g.Nodes[i].Upstreams)
	}
	return count
}

// Clone returns a copy that shares only the bytes of constants with g, which are immutable.
func (g *Graph) Clone() *Graph {
	c := *g
	c.Tags = maps.Clone(g.Tags)
	c.FairBy = slices.Clone(g.FairBy)
	c.Budgets = slices.Clone(g.Budgets)
	for i := range c.Budgets {
		c.Budgets[i] = c.Budgets[i].clone()
	}
	c.Nodes = slices.Clone(g.Nodes)
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Options = n.Options.Clone()
		n.Tags = maps.Clone(n.Tags)
		n.Input = n.Input.clone()
		n.Upstreams = slices.Clone(n.Upstreams)
		n.Wait = n.Wait.clone()
		n.Condition = n.Condition.clone()
		if n.Finally != nil {
			f := *n.Finally
			n.Finally = &f
		}
		if n.Map != nil {
			m := *n.Map
			n.Map = &m
		}
		n.cloneGrowth()
		if n.Sub != nil && n.SubOf == "" {
			n.Sub = n.Sub.Clone()
		}
	}
	return &c
}

func (w *WaitSpec) clone() *WaitSpec {
	if w == nil {
		return nil
	}
	c := *w
	c.Wait, c.Timer = w.Wait.Clone(), w.Timer.clone()
	return &c
}

// label is the text of an edge's kind in pictures; the default kind has none.
func (k EdgeKind) label() string {
	switch k {
	case OnFailureOnly:
		return "on failure"
	case AnyOutcome:
		return "always"
	case UnlessFailed:
		return "or else"
	}
	return ""
}

// text describes in words the wait of a waitpoint.
func (w *WaitSpec) text() string {
	text := w.Needs()
	if w.Timeout > 0 {
		text += fmt.Sprintf(", %s after %s", w.OnTimeout, w.Timeout)
	}
	return "waits for " + text
}

// Handle carries a graph from a flow.Definition or a runtime.RunDescription to packages of this module; programs can do
// nothing with it.
type Handle struct{ graph *Graph }

// HandleOf returns the handle of a graph.
func HandleOf(g *Graph) Handle { return Handle{g} }

// Of returns a copy of the graph of a handle.
func Of(h Handle) *Graph { return h.graph.Clone() }

// View returns the graph of a handle, which must not be changed; nil for a run that stores none.
func View(h Handle) *Graph { return h.graph }

// Limits of a flow. Exceeding one is a fault of kind ErrLimit with the position, the size and the limit. Names
// of flows and nodes follow activityspec.CheckName: 1 to 128 characters out of A-Z, a-z, 0-9, '.', '_' and '-'.
const (
	MaxNodes       = 10_000
	maxEdges       = 50_000
	MaxFan         = 10_000  // upstreams of one node, and nodes that depend on one
	MaxConst       = 1 << 20 // bytes of one encoded Const
	maxTags        = 64      // tags of one node, and of the flow
	maxTagKey      = 128     // bytes
	MaxTagValue    = 1024    // bytes
	maxDescription = 4096    // bytes
	MaxDepth       = 32      // nesting of List and Struct in one input
)
