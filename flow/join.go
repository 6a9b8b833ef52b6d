package flow

import (
	"reflect"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// AnyOf is the result of whichever of the nodes succeeds first. A node with this binding starts then, and is skipped
// when all of them have ended without success. The others are cancelled unless other nodes need them or LetRun is set.
//
// A node has at most one join, which covers all its upstreams: it cannot be combined with After or another binding.
func AnyOf[T any](refs ...Ref[T]) Binding[T] {
	return bound[T]{draft{kind: draftFirst, typ: reflect.TypeFor[T](), items: drafts(refs), needed: 1}}
}

// Quorum is the results of the nodes that had succeeded when at least k of them had, in the order given; there may be
// more than k if several end at the same time. A node with this binding starts then, and is skipped as soon as fewer
// than k can still succeed. AnyOf describes the effect on the other nodes and the restrictions.
func Quorum[T any](k int, refs ...Ref[T]) Binding[[]T] {
	return bound[[]T]{draft{kind: draftSome, typ: reflect.TypeFor[[]T](), items: drafts(refs), needed: k}}
}

func drafts[T any](refs []Ref[T]) []draft {
	items := make([]draft, len(refs))
	for i, ref := range refs {
		items[i] = ref.constOrRef()
	}
	return items
}

// JoinOption is the result of AfterAny, AfterQuorum, OnAnyFailure and LetRun, an option of nodes, waitpoints and
// timers. The zero value changes nothing.
type JoinOption struct{ set func(*nodeSettings) }

// NodeOption marks an option of nodes.
func (JoinOption) NodeOption(activityspec.Mark) {}

// WaitpointOption marks an option of waitpoints.
func (JoinOption) WaitpointOption(activityspec.Mark) {}

func (o JoinOption) applyNode(_ *builder, n *nodeSettings) { o.applyWait(n) }

func (o JoinOption) applyWait(n *nodeSettings) {
	if o.set != nil {
		o.set(n)
	}
}

// AfterAny is like AnyOf without the result: the node starts when one of the given nodes has succeeded.
func AfterAny(refs ...Upstream) JoinOption {
	return JoinOption{func(n *nodeSettings) {
		n.joins = append(n.joins, joinDraft{Join: flowgraph.Join{Policy: flowgraph.JoinAny}, refs: refs})
	}}
}

// AfterQuorum is like Quorum without the results: the node starts when k of the given nodes have succeeded.
func AfterQuorum(k int, refs ...Upstream) JoinOption {
	return JoinOption{func(n *nodeSettings) {
		n.joins = append(n.joins, joinDraft{Join: flowgraph.Join{Policy: flowgraph.JoinQuorum, Needed: k}, refs: refs})
	}}
}

// LetRun lets the upstreams of the node's join run to their end when it is decided, in either way. The default is that
// those still running are cancelled, except one that another node waits for or whose result is the flow's.
func LetRun() JoinOption {
	return JoinOption{func(n *nodeSettings) { n.spec.Join.LetRun = true }}
}

// joinDraft is a join as it was declared: by an option, with references, or by a binding, with names.
type joinDraft struct {
	flowgraph.Join
	refs  []Upstream
	names []string
}

// join resolves the join of a node under declaration and returns the upstreams of a join given as an option.
func (b *builder) join(n *nodeSettings) []orderedRef {
	name := n.spec.Name
	switch {
	case len(n.joins) == 0:
		if n.spec.Join.LetRun {
			n.spec.Join = flowgraph.Join{}
			b.faults.Add(name, "", flowgraph.ErrOption, "LetRun is for nodes with a join")
		}
		return nil
	case len(n.joins) > 1:
		b.faults.Add(name, "join", flowgraph.ErrJoin, "%d joins; a node has at most one", len(n.joins))
	case len(n.joins[0].refs) > 0 && len(n.order) > 0:
		b.faults.Add(name, "join", flowgraph.ErrJoin,
			"other upstreams are given besides; all upstreams of a node with a join belong to it")
	}
	j := n.joins[0]
	n.spec.Join.Policy, n.spec.Join.Needed = j.Policy, j.Needed
	var order []orderedRef
	for i, ref := range j.refs {
		order = append(order, orderedRef{kind: j.edges(), ref: ref, index: i})
		if ref != nil {
			j.names = append(j.names, ref.Name())
		}
	}
	for _, twice := range repeated(j.names) {
		b.faults.Add(name, "join", flowgraph.ErrJoin, "%q is given twice", twice)
	}
	return order
}

// edges is the kind of the edges of a join.
func (j joinDraft) edges() flowgraph.EdgeKind {
	if j.Policy == flowgraph.JoinAnyFailure {
		return flowgraph.OnFailureOnly
	}
	return flowgraph.SuccessOnly
}

// repeated returns the names that occur more than once, each once. The empty name means a value that is not a node.
func repeated(names []string) []string {
	seen := make(map[string]int, len(names))
	var twice []string
	for _, name := range names {
		if seen[name]++; seen[name] == 2 && name != "" {
			twice = append(twice, name)
		}
	}
	return twice
}

// joined lowers the references of a join that is a binding.
func (l lowering) joined(d draft, at *flowgraph.Position) flowgraph.Expr {
	j := joinDraft{Join: flowgraph.Join{Policy: flowgraph.JoinAny}}
	e := flowgraph.Expr{Kind: flowgraph.ExprFirst}
	if d.kind == draftSome {
		j.Join, e.Kind = flowgraph.Join{Policy: flowgraph.JoinQuorum, Needed: d.needed}, flowgraph.ExprSome
	}
	seen := make(map[string]bool, len(d.items))
	for i := range d.items {
		item := l.ref(d.items[i], at.Item(i))
		switch {
		case item.Kind == flowgraph.ExprInput:
			l.b.faults.Add(l.node, at.Item(i).String(), flowgraph.ErrEdge,
				"the flow's input is there from the start; it cannot be waited for")
		case item.Kind == flowgraph.ExprNode:
			j.names = append(j.names, item.Node)
			if !seen[item.Node] {
				seen[item.Node] = true
				e.Items = append(e.Items, item)
			}
		}
	}
	*l.joins = append(*l.joins, j)
	return e
}
