package submit

import (
	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Kinds of the executions whose work is a run of its own. They are no names of activities, so every worker knows them
// and none can register another.
const (
	MapKind = ":map"
	SubKind = ":sub"
)

// ChildWaitPrefix begins what the record of an execution says that waits for a run.
const ChildWaitPrefix = "waits for run "

// StoredChild says, in the policy of an execution, that its work is a run of its own.
type StoredChild struct {
	// Flow is the name of a sub-flow.
	Flow string `json:"flow,omitempty"`
	// MaxItems, AtOnce and Outcomes are those of a flowgraph.MapSpec.
	MaxItems int  `json:"max_items,omitempty"`
	AtOnce   int  `json:"at_once,omitempty"`
	Outcomes bool `json:"outcomes,omitempty"`
}

// IsChild tells whether a node stands for a run of its own.
func IsChild(n *flowgraph.Node) bool { return n.Map != nil || n.Sub != nil }

// childNode is what the engine runs for a node that stands for a run of its own: starting that run and taking its
// result. The options of a map are those of its items.
func childNode(n *flowgraph.Node) *flowgraph.Node {
	c := *n
	if c.Map != nil {
		c.Options = activityspec.Options{Retry: activity.NoRetry.Plan(), Lane: n.Lane, Priority: n.Priority}
	}
	return &c
}

// needsFlowInput tells whether the items of a map have limits whose keys stand in the flow's input.
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

// kindOf is the kind of execution that a node becomes.
func kindOf(n *flowgraph.Node) string {
	switch {
	case n.Map != nil:
		return MapKind
	case n.Sub != nil:
		return SubKind
	}
	return n.Activity
}
