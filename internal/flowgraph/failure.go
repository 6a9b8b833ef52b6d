package flowgraph

import (
	"slices"
	"strings"
)

// JoinAnyFailure waits for the end of every upstream and needs one of them to have failed, expired or been cancelled.
const JoinAnyFailure JoinPolicy = "any_failure"

// Tolerates reports whether a join makes up for failures of its upstreams.
func (p JoinPolicy) Tolerates() bool { return p == JoinAny || p == JoinQuorum }

// ExprFailure is the first failure of Nodes, as a JSON object, or null if none of them failed.
const ExprFailure ExprKind = "failure"

// noFailure is the value of ExprFailure when no node failed.
const noFailure = "null"

// FailureKey is where the results that Resolve gets have the value of an ExprFailure. No node has this name.
func (e Expr) FailureKey() string { return "failure of " + strings.Join(e.Nodes, ",") }

// Failures returns the parts of e that are of ExprFailure.
func (e Expr) Failures() []Expr {
	var found []Expr
	e.walk(func(leaf Expr) {
		if leaf.Kind == ExprFailure {
			found = append(found, leaf)
		}
	})
	return found
}

// failure returns the value of an ExprFailure.
func (e Expr) failure(results map[string][]byte) []byte {
	if value, there := results[e.FailureKey()]; there {
		return value
	}
	return []byte(noFailure)
}

// failure checks a part of an input that is a failure: the node waits for the end of each node that may fail.
func (v *Validation) failure(n *Node, e *Expr, composed bool, at *Position) {
	v.codec(n, StoredCodec, "a failure", composed, at)
	if len(e.Nodes) == 0 {
		v.Faults.Add(n.Name, at.String(), ErrBinding, "a failure of no nodes")
	}
	for i, name := range e.Nodes {
		waits := slices.ContainsFunc(n.Upstreams, func(up Edge) bool {
			return up.Node == name && (up.Kind == OnFailureOnly || up.Kind == AnyOutcome)
		})
		switch _, known := v.index[name]; {
		case !known:
			v.Faults.Add(n.Name, at.Item(i).String(), ErrUnknownNode, "%q", name)
		case !waits:
			v.Faults.Add(n.Name, at.Item(i).String(), ErrEdge,
				"the node does not wait for a failure of %q: give it OnFailure, OnAnyFailure or Always", name)
		}
	}
}

// isOnFailure reports whether the edges of a join are followed after failures.
func (j Join) isOnFailure() bool { return j.Policy == JoinAnyFailure }

// failureEdges checks the edges of a join on any failure.
func (v *Validation) failureEdges(n *Node, inputs []Expr) {
	if len(inputs) > 0 {
		v.Faults.Add(n.Name, "join", ErrJoin, "the input takes results of a join, the node runs on failures")
	}
	var others []Edge
	for _, up := range n.Upstreams {
		if up.Kind != OnFailureOnly {
			others = append(others, up)
		}
	}
	if len(others) > 0 {
		v.Faults.Add(n.Name, "join", ErrJoin, "%s besides OnAnyFailure; all upstreams of a node with it belong to it",
			namesOf(others))
	}
	if !n.Join.LetRun {
		v.Faults.Add(n.Name, "join", ErrJoin, "a join on any failure lets its upstreams run")
	}
}

// failures writes an ExprFailure.
func (w *writer) failures(e Expr) {
	w.raw(`{"failure":[`)
	for i, name := range e.Nodes {
		if i > 0 {
			w.raw(",")
		}
		w.quoted(name)
	}
	w.raw("]}")
}
