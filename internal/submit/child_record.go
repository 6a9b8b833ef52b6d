package submit

import (
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Kinds of the executions whose work is a child run. They cannot be names of activities, so every worker knows them and
// none can register another.
const (
	MapKind = ":map"
	SubKind = ":sub"
)

// ChildWaitPrefix is the beginning of the text in the record of an execution that waits for its child run.
const ChildWaitPrefix = "waits for run "

// StoredChild describes, in the policy of a map or sub-flow node, the child run that it starts.
type StoredChild struct {
	// Flow is the name of a sub-flow, also of the sub-flow of a loop or of a map's items.
	Flow string `json:"flow,omitempty"`
	// MaxItems, AtOnce and Outcomes come from a flowgraph.MapSpec.
	MaxItems int  `json:"max_items,omitempty"`
	AtOnce   int  `json:"at_once,omitempty"`
	Outcomes bool `json:"outcomes,omitempty"`
	// MaxTurns is set for a loop.
	MaxTurns int `json:"max_turns,omitempty"`
	// Expand is true for a node that runs the plan of its activity.
	Expand bool `json:"expand,omitempty"`
}

// IsChild reports whether a node starts a child run: a map, a sub-flow, a loop or an expansion.
func IsChild(n *flowgraph.Node) bool { return n.Map != nil || n.Sub != nil || n.Expand != nil }

// delegates reports whether a node does nothing but start child runs: its function, if it has one, decides when that
// ends.
func delegates(n *flowgraph.Node) bool { return n.Map != nil || n.Sub != nil }

// childNode returns the node as the engine runs it. For a map or sub-flow node that is the start of the child run and
// the wait for its result: the options of a map node belong to its items.
func childNode(n *flowgraph.Node) *flowgraph.Node {
	c := *n
	if c.Map != nil {
		c.Options = activityspec.Options{Retry: activityspec.NoRetry(), Lane: n.Lane, Priority: n.Priority}
	}
	return &c
}

// needsFlowInput reports whether the items of a map have limits whose keys come from the run's input.
func needsFlowInput(n *flowgraph.Node) bool {
	if n.Map == nil {
		return false
	}
	for _, limit := range n.Limits {
		if len(limit.KeyFrom) > 0 {
			return true
		}
	}
	return false
}

// kindOf returns the kind of the execution of a node.
func kindOf(n *flowgraph.Node) string {
	switch {
	case n.Map != nil:
		return MapKind
	case n.Sub != nil && n.Loop == nil:
		return SubKind
	}
	return n.Activity
}
