package flow

import (
	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// MaxItems is the most items that a Map takes, and how many it takes where MaxMapItems says nothing.
const MaxItems = flowgraph.MaxItems

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
	return Ref[[]O]{owner: f.b, index: f.b.mapNode(name, handlerOf(a), items, flowgraph.MapSpec{MaxItems: MaxItems}, opts)}
}

// MapOutcomes is Map for items of which some may fail: all of them are run, and the result says of each how it ended. The
// node succeeds whatever becomes of the items.
func MapOutcomes[I, O, In, Out any](f *Builder[In, Out], name string, a *activity.Activity[I, O], items Binding[[]I], opts ...NodeOption) Ref[[]ItemOutcome[O]] {
	if f == nil || f.b == nil {
		return Ref[[]ItemOutcome[O]]{}
	}
	return Ref[[]ItemOutcome[O]]{owner: f.b, index: f.b.mapNode(name, handlerOf(a), items, flowgraph.MapSpec{MaxItems: MaxItems, Outcomes: true}, opts)}
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
// A flow is finished before another can contain it, so none contains itself; they are nested at most 8 deep.
func Sub[I, O, In, Out any](f *Builder[In, Out], name string, def *Definition[I, O], input Binding[I], opts ...NodeOption) Ref[O] {
	if f == nil || f.b == nil {
		return Ref[O]{}
	}
	var handlers []activity.Handler
	var codec activity.Codec = activity.JSON{}
	var graph *flowgraph.Graph
	if def != nil && def.graph != nil {
		handlers, codec, graph = def.handlers, def.codecOrJSON(), def.graph
	}
	return Ref[O]{owner: f.b, index: f.b.sub(name, graph, handlers, codec, input, opts)}
}

// MaxMapItems is the longest list that a Map takes, at most MaxItems. It is for nodes made by Map and MapOutcomes.
func MaxMapItems(n int) NodeOption {
	return mapOption("MaxMapItems", func(m *flowgraph.MapSpec) { m.MaxItems = n }, n, MaxItems)
}

// ItemsAtOnce is how many items of a Map run at a time; those that wait for a signal, a delay or their next attempt do not
// run. It is for nodes made by Map and MapOutcomes.
func ItemsAtOnce(n int) NodeOption {
	return mapOption("ItemsAtOnce", func(m *flowgraph.MapSpec) { m.AtOnce = n }, n, activityspec.MaxLimitCount)
}

func mapOption(name string, set func(*flowgraph.MapSpec), n, most int) NodeOption {
	return nodeOption(func(b *builder, s *nodeSettings) {
		switch {
		case s.spec.Map == nil:
			b.faults.Add(s.spec.Name, "", flowgraph.ErrOption, "%s is for nodes made by Map", name)
		case n < 1 || n > most:
			b.faults.Add(s.spec.Name, "map", flowgraph.ErrOption, "%s(%d): must be 1 to %d", name, n, most)
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

func (b *builder) mapNode(name string, handler activity.Handler, items AnyBinding, spec flowgraph.MapSpec, opts []NodeOption) int {
	return b.activityNode(name, handler, items, &spec, opts)
}

// sub adds a node that runs another flow and returns its index, also when it has faults.
func (b *builder) sub(name string, g *flowgraph.Graph, handlers []activity.Handler, codec activity.Codec, input AnyBinding, opts []NodeOption) int {
	index := len(b.graph.Nodes)
	spec := flowgraph.Node{Name: name, Sub: g, Codec: codec.Name(), Options: subOptions(g)}
	settings := b.settle(&spec, opts)
	before := len(b.faults.List)
	var known flowgraph.Reported
	if g == nil {
		b.faults.Add(name, "", flowgraph.ErrSubFlow, "it is nil, or was not made by Build")
		spec.Sub = &flowgraph.Graph{}
	}
	for _, h := range handlers {
		b.use(name, h)
	}
	known.Activity = len(b.faults.List) > before
	b.bind(index, &spec, settings, codec, input, known)
	return index
}

// subOptions are what a node that runs a flow has when nothing is said.
func subOptions(g *flowgraph.Graph) activityspec.Options {
	return activityspec.Options{Retry: activity.NoRetry.Plan(), Lane: laneOf(g)}
}

// laneOf is the lane of the first activity of a flow.
func laneOf(g *flowgraph.Graph) string {
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
