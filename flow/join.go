package flow

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// ErrJoin marks an invalid join: of no nodes, of more than there are, or beside other upstreams.
var ErrJoin = errors.New("bad join")

// Join decides from all incoming edges of a node whether it starts. The zero Join requires all of them.
type Join struct {
	Policy JoinPolicy
	// Needed is how many upstreams a JoinQuorum needs, 0 for the others.
	Needed int
	// LetRun lets upstreams that are still running when the join is decided continue. Otherwise they are cancelled.
	LetRun bool
}

// JoinPolicy defines how many upstreams a node needs.
type JoinPolicy string

// The policies. A node is skipped as soon as its join is impossible.
const (
	JoinAll    JoinPolicy = ""       // every upstream, by the kind of its edge
	JoinAny    JoinPolicy = "any_of" // one success
	JoinQuorum JoinPolicy = "quorum" // Needed successes
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
		items[i] = ref.draft()
	}
	return items
}

// JoinOption is what AfterAny, AfterQuorum, CancelRemaining and LetRun return: it is good for nodes and for waitpoints.
type JoinOption func(*nodeSettings)

func (o JoinOption) applyNode(_ *builder, n *nodeSettings) { o(n) }

func (o JoinOption) applyWait(n *nodeSettings) { o(n) }

// AfterAny is like AnyOf without the result: the node starts when one of the given nodes has succeeded.
func AfterAny(refs ...Upstream) JoinOption {
	return func(n *nodeSettings) {
		n.joins = append(n.joins, joinDraft{Join: Join{Policy: JoinAny}, refs: refs})
	}
}

// AfterQuorum is like Quorum without the results: the node starts when k of the given nodes have succeeded.
func AfterQuorum(k int, refs ...Upstream) JoinOption {
	return func(n *nodeSettings) {
		n.joins = append(n.joins, joinDraft{Join: Join{Policy: JoinQuorum, Needed: k}, refs: refs})
	}
}

// CancelRemaining cancels the upstreams of the node's join that still run when it is decided, in either way. An
// upstream that another node waits for, or whose result is the flow's, continues. This is the default.
func CancelRemaining() JoinOption { return remaining(false) }

// LetRun lets the upstreams of the node's join run to their end when it is decided.
func LetRun() JoinOption { return remaining(true) }

func remaining(letRun bool) JoinOption {
	return func(n *nodeSettings) { n.spec.Join.LetRun, n.remaining = letRun, true }
}

// joinDraft is a join as it was declared: by an option, with references, or by a binding, with names.
type joinDraft struct {
	Join
	refs  []Upstream
	names []string
}

// join resolves the join of a node under declaration and returns the upstreams of a join given as an option.
func (b *builder) join(n *nodeSettings) []orderedRef {
	name := n.spec.Name
	switch {
	case len(n.joins) == 0:
		if n.remaining {
			n.spec.Join = Join{}
			b.faults.add(name, "", ErrOption, "CancelRemaining and LetRun are for nodes with a join")
		}
		return nil
	case len(n.joins) > 1:
		b.faults.add(name, "join", ErrJoin, "%d joins; a node has at most one", len(n.joins))
	case len(n.joins[0].refs) > 0 && len(n.order) > 0:
		b.faults.add(name, "join", ErrJoin, "other upstreams are given besides; all upstreams of a node with a join belong to it")
	}
	j := n.joins[0]
	n.spec.Join.Policy, n.spec.Join.Needed = j.Policy, j.Needed
	var order []orderedRef
	for i, ref := range j.refs {
		order = append(order, orderedRef{kind: SuccessOnly, ref: ref, index: i})
		if ref != nil {
			j.names = append(j.names, ref.Name())
		}
	}
	for _, twice := range repeated(j.names) {
		b.faults.add(name, "join", ErrJoin, "%q is given twice", twice)
	}
	return order
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
func (l lowering) joined(d draft, at *place) Expr {
	j := joinDraft{Join: Join{Policy: JoinAny}}
	e := Expr{Kind: ExprFirst}
	if d.kind == draftSome {
		j.Join, e.Kind = Join{Policy: JoinQuorum, Needed: d.needed}, ExprSome
	}
	seen := make(map[string]bool, len(d.items))
	for i := range d.items {
		item := l.ref(d.items[i], at.item(i))
		switch {
		case item.Kind == ExprInput:
			l.b.faults.add(l.node, at.item(i).String(), ErrEdge, "the flow's input is there from the start; it cannot be waited for")
		case item.Kind == ExprNode:
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

// join checks the join of a node against its edges and its input.
func (v *validation) join(n *NodeSpec) {
	inputs := joinInputs(n.Input, nil)
	j := n.Join
	switch {
	case j.Policy == JoinAll:
		if j != (Join{}) || len(inputs) > 0 {
			v.faults.add(n.Name, "join", ErrJoin, "the input, or a setting, is that of a join, but there is none")
		}
		return
	case j.Policy != JoinAny && j.Policy != JoinQuorum:
		v.faults.add(n.Name, "join", ErrJoin, "unknown policy %q", j.Policy)
		return
	case j.Policy == JoinAny && j.Needed != 0:
		v.faults.add(n.Name, "join", ErrJoin, "any of needs one, not %d", j.Needed)
	case len(n.Upstreams) == 0:
		v.faults.add(n.Name, "join", ErrJoin, "%s no nodes", j.words(0))
	case j.Policy == JoinQuorum && (j.Needed < 1 || j.Needed > len(n.Upstreams)):
		v.faults.add(n.Name, "join", ErrJoin, "%d of %s: it needs 1 to %d", j.Needed, namesOf(n.Upstreams), len(n.Upstreams))
	}
	v.joinEdges(n, inputs)
}

// joinEdges checks that a join covers all upstreams of a node.
func (v *validation) joinEdges(n *NodeSpec, inputs []Expr) {
	want := map[JoinPolicy]ExprKind{JoinAny: ExprFirst, JoinQuorum: ExprSome}[n.Join.Policy]
	if len(inputs) > 1 || len(inputs) == 1 && inputs[0].Kind != want {
		v.faults.add(n.Name, "join", ErrJoin, "the input takes other results than those of one %s join", n.Join.Policy)
		return
	}
	members := make(map[string]bool)
	if len(inputs) == 1 {
		for _, name := range inputs[0].InputNodes() {
			members[name] = true
		}
	}
	var others []Edge
	for _, up := range n.Upstreams {
		if up.Kind != SuccessOnly || members[up.Node] != (len(inputs) == 1) || up.Data != (len(inputs) == 1) {
			others = append(others, up)
		}
	}
	if len(others) > 0 {
		v.faults.add(n.Name, "join", ErrJoin, "%s besides the join; all upstreams of a node with a join belong to it, "+
			"by their success", namesOf(others))
	}
}

// joinInputs returns the parts of an input that are those of a join.
func joinInputs(e Expr, found []Expr) []Expr {
	if e.Kind == ExprFirst || e.Kind == ExprSome {
		return append(found, e)
	}
	for _, item := range e.Items {
		found = joinInputs(item, found)
	}
	for _, field := range e.Fields {
		found = joinInputs(field.Value, found)
	}
	return found
}

// words begins the list of a join's upstreams: "any of", "2 of". It is empty where all are needed.
func (j Join) words(upstreams int) string {
	switch j.Policy {
	case JoinAny:
		return "any of"
	case JoinQuorum:
		if upstreams > 0 {
			return fmt.Sprintf("%d of %d:", j.Needed, upstreams)
		}
		return fmt.Sprintf("%d of", j.Needed)
	}
	return ""
}

// label describes the join of a node for a picture, "" where it has none.
func (n *NodeSpec) joinLabel() string {
	if n.Join.Policy == JoinAll {
		return ""
	}
	label := fmt.Sprintf("%s %d", Join{Policy: n.Join.Policy, Needed: n.Join.Needed}.words(0), len(n.Upstreams))
	if n.Join.LetRun {
		label += ", let run"
	}
	return label
}

func namesOf(edges []Edge) string {
	names := make([]string, 0, maxOutlined+1)
	for i, edge := range edges {
		if i == maxOutlined {
			names = append(names, fmt.Sprintf("%d more", len(edges)-i))
			break
		}
		names = append(names, fmt.Sprintf("%q", edge.Node))
	}
	return strings.Join(names, ", ")
}

// storedJoin is the stored form of a Join.
type storedJoin struct {
	Policy string `json:"policy"`
	Needed int    `json:"needed"`
	LetRun bool   `json:"let_run"`
}

func (s *storedJoin) join() Join {
	if s == nil {
		return Join{}
	}
	return Join{Policy: JoinPolicy(s.Policy), Needed: s.Needed, LetRun: s.LetRun}
}

func (w *writer) join(j Join) {
	if j == (Join{}) {
		return
	}
	w.raw(`,"join":{`)
	w.key("policy")
	w.quoted(string(j.Policy))
	w.number("needed", int64(j.Needed))
	if j.LetRun {
		w.raw(`,"let_run":true`)
	}
	w.raw("}")
}

// sources writes the nodes that a part of an input takes its result from.
func (w *writer) sources(kind ExprKind, items []Expr) {
	w.raw("{")
	w.key(string(kind))
	w.raw("[")
	for i, item := range items {
		if i > 0 {
			w.raw(",")
		}
		w.quoted(item.Node)
	}
	w.raw("]}")
}

// sourcesOf is the counterpart of writer.sources.
func sourcesOf(kind ExprKind, names []string) Expr {
	e := Expr{Kind: kind, Items: make([]Expr, len(names))}
	for i, name := range names {
		e.Items[i] = Expr{Kind: ExprNode, Node: name}
	}
	return e
}

// present returns the items whose results are there.
func present(items []Expr, results map[string][]byte) []Expr {
	return slices.DeleteFunc(slices.Clone(items), func(item Expr) bool {
		_, there := results[item.Node]
		return !there
	})
}

// first returns the first of the items' results that is there.
func (e Expr) first(results map[string][]byte) ([]byte, error) {
	for _, item := range e.Items {
		if result, there := results[item.Node]; there {
			return result, nil
		}
	}
	return nil, fmt.Errorf("%w: of none of the nodes %s", ErrNoResult, strings.Join(e.InputNodes(), ", "))
}
