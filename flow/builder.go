package flow

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/jsontype"
)

// Builder collects the nodes of a flow that takes an In and returns an Out. It is not safe for concurrent use. Build
// reports all faults at once; no other call fails.
type Builder[In, Out any] struct {
	b *builder
}

// New begins a flow. Its name follows the rule of package activity. A flow has at most 10,000 nodes, 50,000 edges,
// and 10,000 upstreams of one node.
func New[In, Out any](name string, opts ...Option) *Builder[In, Out] {
	b := &builder{
		graph: flowgraph.Graph{
			Name:       name,
			InputType:  reflect.TypeFor[In]().String(),
			OutputType: reflect.TypeFor[Out]().String(),
			Codec:      activity.JSON{}.Name(),
		},
		codec:    activity.JSON{},
		byName:   make(map[string]activity.Handler),
		fields:   make(fieldCache),
		reported: make(map[int]flowgraph.Reported),
		results:  make(map[int]reflect.Type),
		places:   make(map[string][]place),
		faults:   flowgraph.FaultList{Flow: name},
	}
	b.declared("")
	for i, opt := range opts {
		if opt == nil {
			b.faults.Add("", "", flowgraph.ErrOption, "option %d is nil", i+1)
			continue
		}
		opt.applyFlow(b)
	}
	return &Builder[In, Out]{b: b}
}

// Input refers to the value that a run is started with.
func (f *Builder[In, Out]) Input() Ref[In] {
	if f == nil {
		return Ref[In]{}
	}
	return Ref[In]{owner: f.b, index: inputIndex}
}

// Node adds a node that runs an activity, and returns a reference to its result. The node starts when every node whose
// result is bound in input, and every node given to After, has succeeded. A binding of another type than the activity's
// input does not compile. Names are unique in a flow and follow the rule of package activity; the node's options
// replace the activity's.
func Node[I, O, In, Out any](
	f *Builder[In, Out], name string, a *activity.Activity[I, O], input Binding[I], opts ...NodeOption,
) Ref[O] {
	if f == nil || f.b == nil {
		return Ref[O]{}
	}
	var handler activity.Handler
	if a != nil {
		handler = a
	}
	return refTo[O](f.b, f.b.node(name, handler, input, opts))
}

// Return makes the result of a node the flow's. Call it once; it is optional for a flow whose Out is struct{}.
func Return[In, Out any](f *Builder[In, Out], result Ref[Out]) {
	if f == nil || f.b == nil {
		return
	}
	b := f.b
	switch {
	case b.returned:
		b.faults.Add("", "return", flowgraph.ErrReturn, "Return is called twice")
	case result.owner != b:
		b.faults.Add("", "return", flowgraph.ErrForeignRef, "%s", result.owner.whose())
	case result.index == inputIndex:
		b.faults.Add("", "return", flowgraph.ErrReturn, "the flow's input is not a result")
	default:
		b.graph.Return = result.Name()
	}
	b.returned = true
}

// Build checks everything that the compiler cannot and returns the finished flow. Its error joins one *Fault per fault:
// Faults lists them, and errors.Is matches each kind. The builder may be used further; the Definition does not change
// with it.
func (f *Builder[In, Out]) Build() (*Definition[In, Out], error) {
	if f == nil || f.b == nil {
		return nil, &Fault{Kind: flowgraph.ErrEmptyFlow, Detail: "the builder was not made by New"}
	}
	b := f.b
	b.settleLanes()
	b.settleFinally()
	check := flowgraph.Validation{
		G: &b.graph, Faults: flowgraph.FaultList{Flow: b.graph.Name, List: slices.Clone(b.faults.List)},
		Skip: b.reported,
	}
	check.Run()
	b.checkType("input", reflect.TypeFor[In](), &check.Faults)
	b.checkType("result", reflect.TypeFor[Out](), &check.Faults)
	b.keyPaths(reflect.TypeFor[In](), &check.Faults)
	if !b.returned && reflect.TypeFor[Out]() != reflect.TypeFor[struct{}]() {
		check.Faults.Add("", "return", flowgraph.ErrNoReturn, "%s; call flow.Return", b.graph.OutputType)
	}
	if err := faultsError(check.Faults.Err(), b.placeOf); err != nil {
		return nil, err
	}
	g := b.graph.Clone()
	results := make(map[string]reflect.Type, len(b.results))
	for node, t := range b.results {
		results[g.Nodes[node].Name] = t
	}
	return &Definition[In, Out]{
		graph: g, hash: g.Hash(), codec: b.codec, handlers: slices.Clone(b.handlers), results: results,
	}, nil
}

// builder is a Builder without its types.
type builder struct {
	graph    flowgraph.Graph
	codec    activity.Codec
	handlers []activity.Handler // in the order of their first use, each once
	byName   map[string]activity.Handler
	fields   fieldCache
	returned bool
	priority *int  // of nodes without one
	laneless []int // indexes of conditions that get the lane of the flow's first activity
	faults   flowgraph.FaultList
	// reported lists, by node index, the parts with known faults, which the validation does not report again.
	reported map[int]flowgraph.Reported
	results  map[int]reflect.Type // of nodes, by their indexes
	places   map[string][]place   // of the declarations of nodes, by name; of the flow under ""
}

// refTo refers to the result of a node, and records its type.
func refTo[T any](b *builder, node int) Ref[T] {
	b.results[node] = reflect.TypeFor[T]()
	return Ref[T]{owner: b, index: node}
}

// node adds a node and returns its index, also when it has faults.
func (b *builder) node(name string, handler activity.Handler, input AnyBinding, opts []NodeOption) int {
	return b.activityNode(name, handler, input, func(*flowgraph.Node) {}, opts)
}

// activityNode adds a node that runs an activity: once, or as shape specifies.
func (b *builder) activityNode(
	name string, handler activity.Handler, input AnyBinding, shape func(*flowgraph.Node), opts []NodeOption,
) int {
	index := len(b.graph.Nodes)
	spec := flowgraph.Node{
		Name: name, Options: activityspec.DefaultOptions(), Codec: activity.JSON{}.Name(),
	}
	shape(&spec)
	codec := activity.Codec(activity.JSON{})
	var known flowgraph.Reported
	if handler == nil {
		b.faults.Add(name, "", flowgraph.ErrNilActivity, "")
		known.Activity = true
	} else {
		if err := handler.Err(); err != nil {
			b.faults.Cause(name, "", flowgraph.ErrInvalidActivity, err)
			known.Activity = true
		}
		b.use(name, handler)
		codec = handler.Codec()
		spec.Activity, spec.Codec = handler.Name(), codec.Name()
		spec.Options = activityspec.OptionsOf(handler.Internal())
	}
	b.bind(index, &spec, b.settle(&spec, opts), codec, input, known)
	return index
}

// settle applies the options of a node.
func (b *builder) settle(spec *flowgraph.Node, opts []NodeOption) *nodeSettings {
	settings := &nodeSettings{spec: spec}
	if b.priority != nil {
		spec.Priority = *b.priority
	}
	for i, opt := range opts {
		if opt == nil {
			b.faults.Add(spec.Name, "", flowgraph.ErrOption, "option %d is nil", i+1)
			continue
		}
		b.applyNode(settings, opt)
	}
	slices.Sort(spec.Capabilities)
	spec.Capabilities = slices.Compact(spec.Capabilities)
	return settings
}

// applyNode applies one option of a node.
func (b *builder) applyNode(n *nodeSettings, opt NodeOption) {
	switch opt := opt.(type) {
	case nodeSetting:
		opt.applyNode(b, n)
	case activity.ExecutionOption:
		err := activityspec.ErrNilOption
		if opt != nil {
			err = opt(activityspec.Target{Options: &n.spec.Options, Node: true})
		}
		if err != nil {
			b.faults.Cause(n.spec.Name, "", flowgraph.ErrOption, err)
		}
	}
}

// bind gives a node its input and its edges, and adds it to the graph.
func (b *builder) bind(
	index int, spec *flowgraph.Node, settings *nodeSettings, codec activity.Codec, input AnyBinding,
	known flowgraph.Reported,
) {
	before := len(b.faults.List)
	if input == nil {
		b.faults.Add(spec.Name, "input", flowgraph.ErrNilBinding, "")
	} else {
		l := lowering{b: b, node: spec.Name, codec: codec, joins: &settings.joins}
		if spec.IsTimer() {
			l.timer = spec.Wait.Timer
		}
		spec.Input = l.lower(input.constOrRef(), &flowgraph.Position{Name: "input"})
	}
	known.Input = len(b.faults.List) > before
	known.Join = len(settings.joins) > 1
	if known != (flowgraph.Reported{}) {
		b.reported[index] = known
	}
	spec.Upstreams = b.upstreams(spec.Name, spec.Input, slices.Concat(settings.order, b.join(settings)))
	if spec.Finally != nil && len(spec.Upstreams) > len(spec.Input.InputNodes()) {
		b.faults.Add(spec.Name, "finally", flowgraph.ErrEdge,
			"it runs when all others have ended; it waits for no others")
	}
	b.add(*spec)
}

// add appends a node to the graph, and records where it was declared.
func (b *builder) add(spec flowgraph.Node) {
	b.declared(spec.Name)
	b.graph.Nodes = append(b.graph.Nodes, spec)
}

// checkType adds the fault of a type of the flow whose values JSON cannot hold.
func (b *builder) checkType(path string, t reflect.Type, faults *flowgraph.FaultList) {
	if b.codec == nil || b.codec.Name() != (activity.JSON{}).Name() {
		return
	}
	if err := jsontype.Check(t); err != nil {
		faults.Cause("", path, flowgraph.ErrType, err)
	}
}

// use records that a node runs the activity. A worker could not distinguish two activities of the same name.
func (b *builder) use(node string, handler activity.Handler) {
	first, known := b.byName[handler.Name()]
	switch {
	case !known:
		b.byName[handler.Name()] = handler
		b.handlers = append(b.handlers, handler)
	case !isSame(first, handler):
		b.faults.Add(node, "", flowgraph.ErrInvalidActivity, "another activity of this flow is named %q too",
			handler.Name())
	}
}

// upstreams returns the edges of a node: first the edges with data, then the edges without data, by kind. Waiting for
// the success of a node whose result is used adds no edge; other kinds of edges to the same node contradict each other.
func (b *builder) upstreams(node string, input flowgraph.Expr, order []orderedRef) []flowgraph.Edge {
	edges := flowgraph.DataEdges(input)
	if len(order) == 0 {
		return edges
	}
	seen := make(map[string]flowgraph.Edge, len(edges)+len(order))
	for _, e := range edges {
		seen[e.Node] = flowgraph.Edge{Node: e.Node, Kind: e.Kind}
	}
	for _, kind := range flowgraph.OrderKinds {
		for _, o := range order {
			if o.kind != kind || !b.checkOrder(node, o) {
				continue
			}
			edge := flowgraph.Edge{Node: o.ref.Name(), Kind: kind, Case: o.branch}
			switch first, taken := seen[edge.Node]; {
			case !taken:
				seen[edge.Node] = edge
				edges = append(edges, edge)
			case first != edge:
				b.faults.Add(node, o.path(), flowgraph.ErrEdge, "node %q is waited for as %s already", edge.Node,
					describeBranch(first))
			}
		}
	}
	return edges
}

// checkOrder reports whether an upstream without data is valid.
func (b *builder) checkOrder(node string, o orderedRef) bool {
	if o.ref == nil {
		b.faults.Add(node, o.path(), flowgraph.ErrForeignRef, "reference is nil")
		return false
	}
	owner, index := o.ref.origin()
	switch {
	case owner != b:
		b.faults.Add(node, o.path(), flowgraph.ErrForeignRef, "%s", owner.whose())
		return false
	case index == inputIndex:
		b.faults.Add(node, o.path(), flowgraph.ErrEdge,
			"the flow's input is there from the start; it cannot be waited for")
		return false
	}
	return true
}

func (o orderedRef) path() string {
	return fmt.Sprintf("%s[%d]", flowgraph.OrderField(o.kind), o.index)
}

// whose describes the builder that a foreign reference belongs to.
func (b *builder) whose() string {
	if b == nil {
		return "it is the zero Ref, which belongs to none"
	}
	return fmt.Sprintf("it belongs to another builder, of flow %q", b.graph.Name)
}
