package flowgraph

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph/needs"
)

// ErrCondition marks a condition or a branch that is not valid: a case that leads to no node, that is there twice or
// that does not exist.
var ErrCondition = errors.New("bad condition")

const (
	// MaxCases is the maximum number of cases of a condition, the default included.
	MaxCases = 31
	// DefaultCase is the name of the case that is taken when no other one is.
	DefaultCase = "default"
	// CaseTrue and CaseFalse are the cases of a predicate.
	CaseTrue, CaseFalse = "true", "false"
)

// Condition makes a node one that decides which branches run: its activity gets the node's input and returns the name
// of a case, and the edges of that case are satisfied.
type Condition struct {
	// Cases are the names of the cases, at most MaxCases.
	Cases []string
	// Default adds DefaultCase, which is taken when the activity returns a name that is not in Cases. Without Default,
	// the node fails then.
	Default bool
}

// Number returns the number of a case, from 1, by which edges and results name it; 0 if there is none of that name.
func (c *Condition) Number(name string) int {
	if c.Default && name == DefaultCase {
		return len(c.Cases) + 1
	}
	return slices.Index(c.Cases, name) + 1
}

// IsPredicate reports whether the cases are the cases of a predicate.
func (c *Condition) IsPredicate() bool {
	return !c.Default && slices.Equal(c.Cases, []string{CaseTrue, CaseFalse})
}

// names returns the names of all cases.
func (c *Condition) names() []string {
	if c.Default {
		return append(slices.Clone(c.Cases), DefaultCase)
	}
	return c.Cases
}

func (c *Condition) clone() *Condition {
	if c == nil {
		return nil
	}
	return &Condition{Cases: slices.Clone(c.Cases), Default: c.Default}
}

// text describes a condition in words.
func (c *Condition) text() string {
	if c.IsPredicate() {
		return "condition"
	}
	return "one of " + strings.Join(c.names(), ", ")
}

// ConditionActivity is the name of the activity that decides a condition of a flow.
func ConditionActivity(flow, condition string) string { return flow + "." + condition }

// condition checks a node that is a condition.
func (v *Validation) condition(n *Node) {
	c := n.Condition
	if c == nil {
		return
	}
	if n.Wait != nil || n.hasChild() {
		v.Faults.Add(n.Name, "condition", ErrCondition, "waitpoints and nodes with child runs cannot be conditions")
	}
	if count := len(c.names()); count < 1 || count > MaxCases {
		v.Faults.Add(n.Name, "condition", ErrLimit, "%d cases, it must have 1 to %d", count, MaxCases)
	}
	for i, name := range c.Cases {
		switch {
		case name == DefaultCase:
			v.Faults.Add(n.Name, "condition", ErrCondition, "a case cannot have the name %q", DefaultCase)
		case slices.Contains(c.Cases[:i], name):
			v.Faults.Add(n.Name, "condition", ErrCondition, "case %q is there twice", name)
		default:
			if err := activityspec.CheckName(name); err != nil {
				v.Faults.Cause(n.Name, "condition", ErrName, err)
			}
		}
	}
	if n.Codec != StoredCodec {
		v.Faults.Add(n.Name, "codec", ErrCodec, "conditions are decided on json, not %s", n.Codec)
	}
}

// branches checks the edges of cases: each is of a case that its upstream has, and each case has one.
func (v *Validation) branches() {
	used := make(map[string]map[string]bool)
	for i := range v.G.Nodes {
		n := &v.G.Nodes[i]
		for _, up := range n.Upstreams {
			if (up.Kind == WhenCase) != (up.Case != "") {
				v.Faults.Add(n.Name, "upstreams", ErrEdge, "from %q: kind %q with case %q", up.Node, up.Kind, up.Case)
			}
			if at, known := v.index[up.Node]; up.Kind == WhenCase && known {
				v.branch(n, &v.G.Nodes[at], up.Case)
				if used[up.Node] == nil {
					used[up.Node] = make(map[string]bool)
				}
				used[up.Node][up.Case] = true
			}
		}
	}
	for i := range v.G.Nodes {
		n := &v.G.Nodes[i]
		switch {
		case n.Condition == nil:
		case n.Condition.IsPredicate() && len(used[n.Name]) > 0:
		case n.Condition.IsPredicate():
			v.Faults.Add(n.Name, "condition", ErrCondition, "no node has it")
		default:
			for _, name := range n.Condition.names() {
				if !used[n.Name][name] {
					v.Faults.Add(n.Name, "condition", ErrCondition, "no node has its case %q", name)
				}
			}
		}
	}
}

// branch checks an edge of a case.
func (v *Validation) branch(n, up *Node, name string) {
	switch {
	case up.Condition == nil:
		v.Faults.Add(n.Name, OrderField(WhenCase), ErrCondition, "node %q is not a condition", up.Name)
	case up.Condition.Number(name) == 0 && name == DefaultCase:
		v.Faults.Add(n.Name, OrderField(WhenCase), ErrCondition, "condition %q has no default", up.Name)
	case up.Condition.Number(name) == 0:
		v.Faults.Add(n.Name, OrderField(WhenCase), ErrCondition, "condition %q has no case %q; it has %s", up.Name,
			name, strings.Join(up.Condition.names(), ", "))
	}
}

// contradictions reports nodes that never run, since they need two cases of one condition.
func (v *Validation) contradictions() {
	if !slices.ContainsFunc(v.G.Nodes, func(n Node) bool { return n.Condition != nil }) {
		return
	}
	nodes := make([]needs.Node, len(v.G.Nodes))
	for i := range v.G.Nodes {
		n := &v.G.Nodes[i]
		edges := make([]needs.Edge, len(n.Upstreams))
		for k, up := range n.Upstreams {
			from, known := v.index[up.Node]
			if !known || up.Kind == AnyOutcome || up.Kind == UnlessFailed {
				from = -1
			}
			edges[k] = needs.Edge{From: from, Case: up.Case}
		}
		isPartial := n.Join.Policy == JoinAny || n.Join.isOnFailure() ||
			n.Join.Policy == JoinQuorum && n.Join.Needed < len(edges)
		nodes[i] = needs.Node{Edges: edges, Partial: isPartial}
	}
	for _, c := range needs.Conflicts(nodes, newTopology(v.G, v.index).order()) {
		n := &v.G.Nodes[c.Node]
		v.Faults.Add(n.Name, "upstreams", ErrEdge,
			"the node never runs: %s, and %s; flow.AnyOf takes the result of the branch that runs, "+
				"flow.OrElse a constant without it",
			v.needText(n.Upstreams[c.First], c.FirstCase), v.needText(n.Upstreams[c.Second], c.SecondCase))
	}
}

// needText describes the case that an edge needs.
func (v *Validation) needText(up Edge, needed needs.Case) string {
	condition := &v.G.Nodes[needed.Condition]
	name := needed.Name
	if !condition.Condition.IsPredicate() {
		name = fmt.Sprintf("%q", name)
	}
	if up.Kind == WhenCase && up.Node == condition.Name {
		return fmt.Sprintf("its condition %q must be %s", condition.Name, name)
	}
	return fmt.Sprintf("it needs node %q, which runs only when condition %q is %s", up.Node, condition.Name, name)
}

// label is the text of an edge in pictures; one that only a success satisfies has none.
func (e Edge) label() string {
	if e.Kind == WhenCase {
		return e.Case
	}
	return e.Kind.label()
}

// storedCondition is the stored form of a Condition.
type storedCondition struct {
	Cases   []string `json:"cases"`
	Default bool     `json:"default"`
}

// storedBranch is the stored form of an edge of a case.
type storedBranch struct {
	Node string `json:"node"`
	Case string `json:"case"`
}

func (s *storedCondition) condition() *Condition {
	if s == nil {
		return nil
	}
	return &Condition{Cases: s.Cases, Default: s.Default}
}

func branchEdges(list []storedBranch) []Edge {
	edges := make([]Edge, len(list))
	for i, s := range list {
		edges[i] = Edge{Node: s.Node, Kind: WhenCase, Case: s.Case}
	}
	return edges
}

func (w *writer) condition(c *Condition) {
	if c == nil {
		return
	}
	w.raw(`,"condition":{`)
	w.key("cases")
	w.raw("[")
	for i, name := range c.Cases {
		if i > 0 {
			w.raw(",")
		}
		w.quoted(name)
	}
	w.raw("]")
	w.flag("default", c.Default)
	w.raw("}")
}

// branches writes the edges of cases that lead to a node.
func (w *writer) branches(n *Node) {
	var edges []Edge
	for _, up := range n.Upstreams {
		if up.Kind == WhenCase {
			edges = append(edges, up)
		}
	}
	if len(edges) == 0 {
		return
	}
	if w.canonical {
		slices.SortFunc(edges, func(a, b Edge) int { return strings.Compare(a.Node, b.Node) })
	}
	for i, edge := range edges {
		if i == 0 {
			w.raw(`,"when":[{`)
		} else {
			w.raw(`,{`)
		}
		w.key("node")
		w.quoted(edge.Node)
		w.text("case", edge.Case)
		w.raw("}")
	}
	w.raw("]")
}
