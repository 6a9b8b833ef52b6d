package flowgraph

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrJoin marks an invalid join: without nodes, with a quorum larger than the number of nodes, or combined with other
// upstreams.
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

// join checks the join of a node against its edges and its input.
func (v *Validation) join(n *Node) {
	inputs := joinInputs(n.Input, nil)
	j := n.Join
	switch {
	case j.Policy == JoinAll:
		if j != (Join{}) || len(inputs) > 0 {
			v.Faults.Add(n.Name, "join", ErrJoin, "the input, or a setting, is that of a join, but there is none")
		}
		return
	case j.Policy == JoinFinally:
		return // see finally
	case j.Policy != JoinAny && j.Policy != JoinQuorum && !j.isOnFailure():
		v.Faults.Add(n.Name, "join", ErrJoin, "unknown policy %q", j.Policy)
		return
	case j.Policy != JoinQuorum && j.Needed != 0:
		v.Faults.Add(n.Name, "join", ErrJoin, "%s needs one, not %d", j.words(0), j.Needed)
	case len(n.Upstreams) == 0:
		v.Faults.Add(n.Name, "join", ErrJoin, "%s no nodes", j.words(0))
	case j.Policy == JoinQuorum && (j.Needed < 1 || j.Needed > len(n.Upstreams)):
		v.Faults.Add(n.Name, "join", ErrJoin, "%d of %s: it needs 1 to %d", j.Needed, namesOf(n.Upstreams),
			len(n.Upstreams))
	}
	if j.isOnFailure() {
		v.failureEdges(n, inputs)
		return
	}
	v.joinEdges(n, inputs)
}

// joinEdges checks that a join covers all upstreams of a node.
func (v *Validation) joinEdges(n *Node, inputs []Expr) {
	want := map[JoinPolicy]ExprKind{JoinAny: ExprFirst, JoinQuorum: ExprSome}[n.Join.Policy]
	if len(inputs) > 1 || len(inputs) == 1 && inputs[0].Kind != want {
		v.Faults.Add(n.Name, "join", ErrJoin, "the input takes other results than those of one %s join", n.Join.Policy)
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
		v.Faults.Add(n.Name, "join", ErrJoin, "%s besides the join; all upstreams of a node with a join belong to it, "+
			"by their success", namesOf(others))
	}
}

// joinInputs returns the parts of an input that belong to a join.
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

// ChosenNodes returns the names of the nodes from whose results a join chooses in e.
func (e Expr) ChosenNodes() []string {
	var names []string
	for _, choice := range joinInputs(e, nil) {
		for _, item := range choice.Items {
			names = append(names, item.Node)
		}
	}
	return names
}

// words begins the list of a join's upstreams: "any of", "2 of". It is empty where all are needed.
func (j Join) words(upstreams int) string {
	switch j.Policy {
	case JoinAny:
		return "any of"
	case JoinAnyFailure:
		return "any failure of"
	case JoinFinally:
		return "finally, after"
	case JoinQuorum:
		if upstreams > 0 {
			return fmt.Sprintf("%d of %d:", j.Needed, upstreams)
		}
		return fmt.Sprintf("%d of", j.Needed)
	}
	return ""
}

// maxOutlined bounds the upstreams that Outline names for each node.
const maxOutlined = 4

// joinLabel describes the join of a node for a picture, "" where it has none.
func (n *Node) joinLabel() string {
	switch n.Join.Policy {
	case JoinAll:
		return ""
	case JoinFinally:
		return "finally"
	}
	label := fmt.Sprintf("%s %d", Join{Policy: n.Join.Policy, Needed: n.Join.Needed}.words(0), len(n.Upstreams))
	if n.Join.LetRun && !n.Join.isOnFailure() {
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
