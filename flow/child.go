package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Limits of nodes that stand for runs of their own.
const (
	// MaxItems is the most items that a Map takes, and how many it takes where MaxMapItems says nothing.
	MaxItems = MaxNodes
	// MaxSubDepth is how deep flows may be nested by Sub: a flow without sub-flows has depth 1.
	MaxSubDepth = 8
)

// ErrSubFlow marks a node whose sub-flow cannot be run: it is nil, faulty, nested too deep, or has a result that is no JSON.
var ErrSubFlow = errors.New("bad sub-flow")

// Map adds a node that runs an activity once for each item of a list, and returns a reference to the list of the results,
// in the order of the items. How many items there are is known when the list is there, not before: the results of other
// nodes may decide. Each item is an execution of its own, with retries, timeouts, limits and a worker of its own. Options
// that NodeOption calls those of an activity count for each item; After, joins and Tag count for the node.
//
//	counts := flow.Map(f, "count", countLines, files, flow.ItemsAtOnce(8))
//
// An empty list gives an empty list. When an item fails for good, the node fails: items that have not started are
// cancelled, those that run end by themselves, without another attempt. MapOutcomes tolerates failures. A list with more
// items than MaxMapItems fails the node before anything of it is started; a list of results that is larger than a result
// may be fails the node, too. The activity's codec must be JSON, and so must be what the list is made of.
func Map[I, O, In, Out any](f *Builder[In, Out], name string, a *activity.Activity[I, O], items Binding[[]I], opts ...NodeOption) Ref[[]O] {
	if f == nil || f.b == nil {
		return Ref[[]O]{}
	}
	return Ref[[]O]{owner: f.b, index: f.b.mapNode(name, handlerOf(a), items, MapSpec{MaxItems: MaxItems}, opts)}
}

// MapOutcomes is Map for items of which some may fail: all of them are run, and the result says of each how it ended. The
// node succeeds whatever becomes of the items.
func MapOutcomes[I, O, In, Out any](f *Builder[In, Out], name string, a *activity.Activity[I, O], items Binding[[]I], opts ...NodeOption) Ref[[]ItemOutcome[O]] {
	if f == nil || f.b == nil {
		return Ref[[]ItemOutcome[O]]{}
	}
	return Ref[[]ItemOutcome[O]]{owner: f.b, index: f.b.mapNode(name, handlerOf(a), items, MapSpec{MaxItems: MaxItems, Outcomes: true}, opts)}
}

// ItemOutcome is how an item of MapOutcomes ended.
type ItemOutcome[O any] struct {
	// Outcome is success, failed, cancelled or expired.
	Outcome Outcome `json:"outcome"`
	// Value is the result of an item that succeeded, the zero value otherwise.
	Value O `json:"value,omitzero"`
	// Reason and Category describe the last failure, or why the item was cancelled.
	Reason   string `json:"reason,omitempty"`
	Category string `json:"category,omitempty"`
}

// Sub adds a node that runs another flow, and returns a reference to its result. The other flow's run is a run of its own,
// with its own id, that can be described, watched and listed like any; it is cancelled and purged with this one. The node
// fails when it does not succeed.
//
// After, joins, Tag, Lane and Priority count for the node, and so does Retry, whose default here is a single attempt: every
// further one runs again what did not succeed in the other run. What else NodeOption names is said in the other flow. Lane is where
// the node's own work is done, starting the run and taking its result; by default it is that of the other flow's first
// activity.
//
// A flow is finished before another can contain it, so none contains itself; MaxSubDepth bounds how deep they are nested.
func Sub[I, O, In, Out any](f *Builder[In, Out], name string, def *Definition[I, O], input Binding[I], opts ...NodeOption) Ref[O] {
	if f == nil || f.b == nil {
		return Ref[O]{}
	}
	var handlers []activity.Handler
	var codec activity.Codec = activity.JSON{}
	var graph *Graph
	if def != nil && def.graph != nil {
		handlers, codec, graph = def.handlers, def.codecOrJSON(), def.graph
	}
	return Ref[O]{owner: f.b, index: f.b.sub(name, graph, handlers, codec, input, opts)}
}

// MapSpec says how a node runs its activity for each item of a list.
type MapSpec struct {
	// MaxItems is the longest list that it takes, 1 to the constant MaxItems.
	MaxItems int
	// AtOnce is how many items run at a time; 0 is no limit.
	AtOnce int
	// Outcomes makes the result a list of ItemOutcome.
	Outcomes bool
}

// MaxMapItems is the longest list that a Map takes, at most MaxItems. It is for nodes made by Map and MapOutcomes.
func MaxMapItems(n int) NodeOption {
	return mapOption("MaxMapItems", func(m *MapSpec) { m.MaxItems = n }, n, MaxItems)
}

// ItemsAtOnce is how many items of a Map run at a time; those that wait for a signal, a delay or their next attempt do not
// run. It is for nodes made by Map and MapOutcomes.
func ItemsAtOnce(n int) NodeOption {
	return mapOption("ItemsAtOnce", func(m *MapSpec) { m.AtOnce = n }, n, activityspec.MaxLimitCount)
}

func mapOption(name string, set func(*MapSpec), n, most int) NodeOption {
	return nodeOption(func(b *builder, s *nodeSettings) {
		switch {
		case s.spec.Map == nil:
			b.faults.add(s.spec.Name, "", ErrOption, "%s is for nodes made by Map", name)
		case n < 1 || n > most:
			b.faults.add(s.spec.Name, "map", ErrOption, "%s(%d): must be 1 to %d", name, n, most)
		default:
			set(s.spec.Map)
		}
	})
}

func handlerOf[I, O any](a *activity.Activity[I, O]) activity.Handler {
	if a == nil {
		return nil
	}
	return a
}

func (b *builder) mapNode(name string, handler activity.Handler, items AnyBinding, spec MapSpec, opts []NodeOption) int {
	return b.activityNode(name, handler, items, &spec, opts)
}

// sub adds a node that runs another flow and returns its index, also when it has faults.
func (b *builder) sub(name string, g *Graph, handlers []activity.Handler, codec activity.Codec, input AnyBinding, opts []NodeOption) int {
	index := len(b.graph.Nodes)
	spec := NodeSpec{Name: name, Sub: g, Codec: codec.Name(), Options: subOptions(g)}
	settings := b.settle(&spec, opts)
	before := len(b.faults.list)
	var known reported
	if g == nil {
		b.faults.add(name, "", ErrSubFlow, "it is nil, or was not made by Build")
		spec.Sub = &Graph{}
	}
	for _, h := range handlers {
		b.use(name, h)
	}
	known.activity = len(b.faults.list) > before
	b.bind(index, &spec, settings, codec, input, known)
	return index
}

// subOptions are what a node that runs a flow has when nothing is said.
func subOptions(g *Graph) activityspec.Options {
	return activityspec.Options{Retry: activity.NoRetry.Plan(), Lane: laneOf(g)}
}

// laneOf is the lane of the first activity of a flow.
func laneOf(g *Graph) string {
	if g == nil {
		return activity.DefaultLane
	}
	for i := range g.Nodes {
		if g.Nodes[i].Wait == nil && g.Nodes[i].Lane != "" {
			return g.Nodes[i].Lane
		}
	}
	return activity.DefaultLane
}

// depth is how deep flows are nested in g, itself included; more than most is not counted any further.
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

// child checks a node that stands for a run of its own.
func (v *validation) child(n *NodeSpec, skip bool) {
	if n.Map != nil && n.Sub != nil || n.Wait != nil && (n.Map != nil || n.Sub != nil) {
		v.faults.add(n.Name, "", ErrOption, "it is more than one of waitpoint, map and sub-flow")
	}
	if m := n.Map; m != nil && !skip {
		if m.MaxItems < 1 || m.MaxItems > MaxItems {
			v.faults.add(n.Name, "map.max_items", ErrOption, "%d: must be 1 to %d", m.MaxItems, MaxItems)
		}
		if m.AtOnce < 0 || m.AtOnce > activityspec.MaxLimitCount {
			v.faults.add(n.Name, "map.at_once", ErrOption, "%d: must be 0 to %d", m.AtOnce, activityspec.MaxLimitCount)
		}
		if m.AtOnce > 0 && len(n.Limits) >= activityspec.MaxLimits {
			v.faults.add(n.Name, "limits", ErrLimit, "%d limits besides ItemsAtOnce, the limit is %d", len(n.Limits), activityspec.MaxLimits-1)
		}
		if n.Codec != storedCodec {
			v.faults.add(n.Name, "codec", ErrCodec, "the items of a map are json, activity %q takes %s", n.Activity, n.Codec)
		}
	}
	if n.Sub != nil && !skip {
		v.sub(n)
	}
}

func (v *validation) sub(n *NodeSpec) {
	if depth := 1 + n.Sub.depth(MaxSubDepth); depth > MaxSubDepth {
		v.faults.add(n.Name, "sub", ErrSubFlow, "flows are nested deeper than %d", MaxSubDepth)
		return
	}
	if err := n.Sub.Validate(); err != nil {
		v.faults.cause(n.Name, "sub", ErrSubFlow, err)
		return
	}
	if n.Activity != "" {
		v.faults.add(n.Name, "activity", ErrOption, "a sub-flow runs no activity itself, this one has %q", n.Activity)
	}
	if n.Codec != n.Sub.Codec {
		v.faults.add(n.Name, "codec", ErrCodec, "the node is %s, its flow %s", n.Codec, n.Sub.Codec)
	}
	if n.Sub.Return == "" && n.Sub.Codec != storedCodec {
		v.faults.add(n.Name, "sub", ErrSubFlow, "a flow without a result must be json, this one is %s", n.Sub.Codec)
	}
	own := n.Options
	own.Retry, own.Lane, own.Priority = activityspec.RetryPlan{}, "", 0
	if !reflect.DeepEqual(own, activityspec.Options{}) {
		v.faults.add(n.Name, "", ErrOption, "timeouts, capabilities, limits and frames are said in the flow that the node runs")
	}
}

// work says in words what a node does.
func (n *NodeSpec) work() string {
	switch {
	case n.Wait != nil:
		return n.Wait.text()
	case n.Sub != nil:
		return "flow " + n.Sub.Name
	case n.Map != nil && n.Map.AtOnce > 0:
		return fmt.Sprintf("%s for each item, %d at once", n.Activity, n.Map.AtOnce)
	case n.Map != nil:
		return n.Activity + " for each item"
	}
	return n.Activity
}

// ItemName is the name of the i-th item of a Map in the run that its items make, counted from 0.
func ItemName(i int) string { return fmt.Sprintf("item-%d", i) }

// ItemsGraph is the flow that the items of a Map node make: one node for each, without edges. name is that of the flow; the
// items are JSON. The limit is added to each item when it is not nil.
func (n *NodeSpec) ItemsGraph(name string, items []json.RawMessage, limit *activityspec.Limit) *Graph {
	g := &Graph{Name: name, Codec: storedCodec, Nodes: make([]NodeSpec, len(items))}
	options := n.Options.Clone()
	if limit != nil {
		options.SetLimit(*limit)
	}
	for i, item := range items {
		g.Nodes[i] = NodeSpec{
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

// sub writes the flow that a node runs, in the form of a graph of its own.
func (w *writer) sub(g *Graph) {
	if g == nil {
		return
	}
	w.raw(`,"sub":`)
	w.graph(g)
}
