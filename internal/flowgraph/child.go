package flowgraph

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Limits of nodes that start child runs.
const (
	// MaxItems is the maximum number of items of a Map, and the default of MaxMapItems.
	MaxItems = MaxNodes
	// MaxSubDepth is how deep flows may be nested by Sub: a flow without sub-flows has depth 1.
	MaxSubDepth = 8
)

// ErrSubFlow marks a node with an invalid sub-flow: it is nil, faulty, nested too deep, or its result is not JSON.
var ErrSubFlow = errors.New("bad sub-flow")

// MapSpec defines how a node runs its activity for each item of a list.
type MapSpec struct {
	// MaxItems is the maximum length of the list, 1 to the constant MaxItems.
	MaxItems int
	// AtOnce is how many items run at a time; 0 means unlimited.
	AtOnce int
	// Outcomes makes the result a list of ItemOutcome.
	Outcomes bool
}

// depth is the nesting depth of flows in g, including g itself, counted up to most.
func (g *Graph) depth(most int) int {
	depth := 1
	if most <= 1 {
		return depth
	}
	for i := range g.Nodes {
		if sub := g.Nodes[i].Sub; sub != nil {
			depth = max(depth, 1+sub.depth(most-1))
		}
	}
	return depth
}

// child checks a node that starts a child run.
func (v *Validation) child(n *Node, skip bool) {
	if n.Wait != nil && (n.Map != nil || n.Sub != nil) {
		v.Faults.Add(n.Name, "", ErrOption, "it is more than one of waitpoint, map and sub-flow")
	}
	v.growth(n, skip)
	if m := n.Map; m != nil && !skip {
		if m.MaxItems < 1 || m.MaxItems > MaxItems {
			v.Faults.Add(n.Name, "map.max_items", ErrOption, "%d: must be 1 to %d", m.MaxItems, MaxItems)
		}
		if m.AtOnce < 0 || m.AtOnce > activityspec.MaxLimitCount {
			v.Faults.Add(n.Name, "map.at_once", ErrOption, "%d: must be 0 to %d", m.AtOnce, activityspec.MaxLimitCount)
		}
		if m.AtOnce > 0 && len(n.Limits) >= activityspec.MaxLimits {
			v.Faults.Add(n.Name, "limits", ErrLimit, "%d limits besides ItemsAtOnce, the limit is %d", len(n.Limits),
				activityspec.MaxLimits-1)
		}
		if n.Codec != StoredCodec {
			v.Faults.Add(n.Name, "codec", ErrCodec, "the items of a map are json, activity %q takes %s", n.Activity,
				n.Codec)
		}
	}
	if n.Sub != nil && n.SubOf == "" && !skip {
		v.sub(n)
	}
}

func (v *Validation) sub(n *Node) {
	if depth := 1 + n.Sub.depth(MaxSubDepth); depth > MaxSubDepth {
		v.Faults.Add(n.Name, "sub", ErrSubFlow, "flows are nested deeper than %d", MaxSubDepth)
		return
	}
	if err := n.Sub.Validate(); err != nil {
		v.Faults.Cause(n.Name, "sub", ErrSubFlow, err)
		return
	}
	if n.Activity != "" && n.Loop == nil {
		v.Faults.Add(n.Name, "activity", ErrOption, "a sub-flow runs no activity itself, this one has %q", n.Activity)
	}
	if n.Codec != n.Sub.Codec {
		v.Faults.Add(n.Name, "codec", ErrCodec, "the node is %s, its flow %s", n.Codec, n.Sub.Codec)
	}
	if n.Sub.Return == "" && n.Sub.Codec != StoredCodec {
		v.Faults.Add(n.Name, "sub", ErrSubFlow, "a flow without a result must be json, this one is %s", n.Sub.Codec)
	}
	own := n.Options
	own.Retry, own.RetryRules, own.Lane, own.Priority = activityspec.RetryPlan{}, activityspec.RetryRules{}, "", 0
	if !reflect.DeepEqual(own, activityspec.Options{}) {
		v.Faults.Add(n.Name, "", ErrOption,
			"timeouts, capabilities, limits and frames are said in the flow that the node runs")
	}
}

// work describes in words the work of a node.
func (n *Node) work() string {
	switch {
	case n.Condition != nil:
		return n.Condition.text()
	case n.IsTimer():
		return n.timerText()
	case n.Wait != nil:
		return n.Wait.text()
	case n.growthText() != "":
		return n.growthText()
	case n.Sub != nil:
		return "flow " + n.Sub.Name
	case n.Map != nil && n.Map.AtOnce > 0:
		return fmt.Sprintf("%s for each item, %d at once", n.Activity, n.Map.AtOnce)
	case n.Map != nil:
		return n.Activity + " for each item"
	}
	return n.Activity
}

// ItemName is the node name of the i-th item of a Map in its child run, counted from 0.
func ItemName(i int) string { return fmt.Sprintf("item-%d", i) }

// ItemsGraph is the flow that the items of a Map node make: one node for each, without edges. name is the name of the
// flow; the items are JSON. The limit is added to each item when it is not nil. In a map of a flow, edges between the
// items bound how many of them run at a time.
func (n *Node) ItemsGraph(name string, items []json.RawMessage, limit *activityspec.Limit) *Graph {
	g := &Graph{Name: name, Codec: StoredCodec, Nodes: make([]Node, len(items))}
	if n.Sub != nil {
		return n.flowItems(g, items)
	}
	options := n.Options.Clone()
	if limit != nil {
		options.SetLimit(*limit)
	}
	for i, item := range items {
		g.Nodes[i] = Node{
			Name: ItemName(i), Activity: n.Activity, Codec: n.Codec, Options: options,
			Input: Expr{Kind: ExprConst, Value: item},
		}
	}
	return g
}

// storedMap is the stored form of a MapSpec.
type storedMap struct {
	MaxItems int  `json:"max_items"`
	AtOnce   int  `json:"at_once"`
	Outcomes bool `json:"outcomes"`
}

func (s *storedMap) spec() *MapSpec {
	if s == nil {
		return nil
	}
	return &MapSpec{MaxItems: s.MaxItems, AtOnce: s.AtOnce, Outcomes: s.Outcomes}
}

func (w *writer) mapping(m *MapSpec) {
	if m == nil {
		return
	}
	w.raw(`,"map":{"max_items":` + strconv.Itoa(m.MaxItems))
	w.number("at_once", int64(m.AtOnce))
	w.flag("outcomes", m.Outcomes)
	w.raw("}")
}

// sub writes the flow that a node runs, in the form of a separate graph.
func (w *writer) sub(n *Node) {
	switch {
	case n.SubOf != "":
		w.text("sub_of", n.SubOf)
	case n.Sub != nil:
		w.raw(`,"sub":`)
		w.graph(n.Sub)
	}
}
