package flow

import (
	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Map adds a node that runs an activity once for each item of a list, and returns a reference to the list of the
// results, in the order of the items. The list is computed at run time, for example by another node. Each item is a
// separate execution, with its own retries, timeouts, limits and worker. Options for activities apply to each item;
// After, joins and Tag apply to the node.
//
//	counts := flow.Map(f, "count", countLines, files, flow.ItemsAtOnce(8))
//
// An empty list results in an empty list. When an item fails finally, the node fails: items that have not started are
// cancelled, and running items finish without another attempt. MapOutcomes tolerates failures. A list with more items
// than MaxMapItems fails the node before any item starts. The results of the items are the node's result, at most 1 MiB
// in all: an item whose result makes them larger fails. The codecs of the activity and of the list's sources must be
// JSON.
func Map[I, O, In, Out any](
	f *Builder[In, Out], name string, a *activity.Activity[I, O], items Binding[[]I], opts ...NodeOption,
) Ref[[]O] {
	if f == nil || f.b == nil {
		return Ref[[]O]{}
	}
	spec := flowgraph.MapSpec{MaxItems: flowgraph.MaxItems}
	return refTo[[]O](f.b, f.b.mapNode(name, handlerOf(a), items, spec, opts))
}

// MapOutcomes is like Map and tolerates failed items: it runs all of them, and its result contains the outcome of each.
// The node succeeds whatever the outcomes.
func MapOutcomes[I, O, In, Out any](
	f *Builder[In, Out], name string, a *activity.Activity[I, O], items Binding[[]I], opts ...NodeOption,
) Ref[[]ItemOutcome[O]] {
	if f == nil || f.b == nil {
		return Ref[[]ItemOutcome[O]]{}
	}
	outcomes := flowgraph.MapSpec{MaxItems: flowgraph.MaxItems, Outcomes: true}
	return refTo[[]ItemOutcome[O]](f.b, f.b.mapNode(name, handlerOf(a), items, outcomes, opts))
}

// ItemOutcome is the outcome of an item of MapOutcomes or MapFlowOutcomes.
type ItemOutcome[O any] struct {
	// Outcome is how the item ended. Of an item of MapFlowOutcomes it may be fabrictype.OutcomeSkipped: its run has
	// succeeded, and the node that its flow returns was skipped, by a condition for example.
	Outcome fabrictype.Outcome `json:"outcome"`
	// Value is the result of an item that succeeded, the zero value otherwise.
	Value O `json:"value,omitzero"`
	// Reason and Category describe the last failure; if the item is a run, they describe the failure of the node that
	// failed first. For a cancelled or skipped item, Reason is the cause.
	Reason   string `json:"reason,omitempty"`
	Category string `json:"category,omitempty"`
	// Details are the errors with names in the chain of the item's last error, as in a Failure.
	Details []activity.ErrorDetail `json:"details,omitempty"`
}

// Err returns the failure of the item as an error, in which errors.As and errors.Is find the same errors as in
// Failure.Err; nil for an item that succeeded. One that was skipped has an error, too, since it has no Value.
func (o ItemOutcome[O]) Err() error {
	if o.Outcome == fabrictype.OutcomeSucceeded || o.Outcome == "" {
		return nil
	}
	return &outcomeError{"item", o.Outcome, o.Reason, o.Details}
}

// Sub adds a node that runs another flow, and returns a reference to its result. The other flow runs as a child run
// with its own id, which can be described, watched and listed like any run; it is cancelled and purged with its parent.
// The node fails if the child run does not succeed. It is skipped if the child run succeeds without a result, because
// the node that the other flow returns was skipped: the nodes after it are then skipped, as after a condition. A flow
// without Return gives the zero value.
//
// After, joins, Tag, Lane and Priority apply to the node, and so does Retry, whose default here is a single attempt:
// every further attempt reruns the nodes of the child run that did not succeed. The other flow sets all other options.
// Lane is the lane of the node itself, which starts the child run and collects its result; the default is the lane of
// the other flow's first activity.
//
// A flow must be built before another can contain it, so no flow contains itself. Flows can be nested 8 deep.
func Sub[I, O, In, Out any](
	f *Builder[In, Out], name string, def *Definition[I, O], input Binding[I], opts ...NodeOption,
) Ref[O] {
	if f == nil || f.b == nil {
		return Ref[O]{}
	}
	return refTo[O](f.b, f.b.flowNode(name, partsOf(def), input, func(*flowgraph.Node) {}, opts))
}

// MaxMapItems sets the maximum length of a Map's list, at most 10,000, which is the default. It applies to nodes of Map
// and MapOutcomes.
func MaxMapItems(n int) NodeOption {
	return mapOption("MaxMapItems", func(m *flowgraph.MapSpec) { m.MaxItems = n }, n, flowgraph.MaxItems)
}

// ItemsAtOnce bounds how many items of a Map run at a time; items that wait for a signal, a delay or their next attempt
// do not count. It applies to nodes of Map and MapOutcomes.
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

func (b *builder) mapNode(
	name string, handler activity.Handler, items AnyBinding, spec flowgraph.MapSpec, opts []NodeOption,
) int {
	return b.activityNode(name, handler, items, func(n *flowgraph.Node) { n.Map = &spec }, opts)
}

// flowParts is a Definition without its types.
type flowParts struct {
	graph    *flowgraph.Graph // nil for a definition that Build did not return
	codec    activity.Codec
	handlers []activity.Handler
}

func partsOf[I, O any](def *Definition[I, O]) flowParts {
	if def == nil || def.graph == nil {
		return flowParts{codec: activity.JSON{}}
	}
	return flowParts{graph: def.graph, codec: def.Codec(), handlers: def.handlers}
}

// flowNode adds a node that runs another flow, once or as shape specifies, and returns its index, also when it has
// faults.
func (b *builder) flowNode(
	name string, of flowParts, input AnyBinding, shape func(*flowgraph.Node), opts []NodeOption,
) int {
	index := len(b.graph.Nodes)
	spec := flowgraph.Node{Name: name, Sub: of.graph, Codec: of.codec.Name(), Options: subOptions(of.graph)}
	shape(&spec)
	settings := b.settle(&spec, opts)
	before := len(b.faults.List)
	var known flowgraph.Reported
	if of.graph == nil {
		b.faults.Add(name, "", flowgraph.ErrSubFlow, "it is nil, or was not made by Build")
		spec.Sub = &flowgraph.Graph{}
	}
	for _, h := range of.handlers {
		b.use(name, h)
	}
	known.Activity = len(b.faults.List) > before
	b.bind(index, &spec, settings, of.codec, input, known)
	return index
}

// subOptions are the default options of a node that runs a flow.
func subOptions(g *flowgraph.Graph) activityspec.Options {
	return activityspec.Options{Retry: activityspec.NoRetry(), Lane: laneOf(g)}
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
