package flow

import (
	"reflect"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Failure is how a node ended that did not succeed, as a value for other nodes: see FailureOf.
type Failure struct {
	// Node is the name of the node; empty in the zero value, which means that no node failed.
	Node string `json:"node,omitempty"`
	// Outcome is Failed, Cancelled or Expired.
	Outcome Outcome `json:"outcome,omitempty"`
	// Category and Reason are those of the node's last attempt, or why it was cancelled.
	Category string `json:"category,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// FailureOf is the failure of whichever of the nodes failed, expired or was cancelled first, for the input of a node
// that runs for it. It adds no edges: the node must wait for each of refs by OnAnyFailure, OnFailure or Always. With
// Always it is the zero value when none of them failed.
//
//	flow.Node(f, "undo", undo, flow.FailureOf(book, pay, ship), flow.OnAnyFailure(book, pay, ship))
func FailureOf(refs ...Upstream) Binding[Failure] {
	items := make([]draft, len(refs))
	for i, ref := range refs {
		if ref != nil {
			items[i] = ref.draft()
		}
	}
	return bound[Failure]{draft{kind: draftFailure, typ: reflect.TypeFor[Failure](), items: items}}
}

// OnAnyFailure lets the node start when all of the given nodes have ended and at least one of them has failed, expired
// or been cancelled; it is skipped when none has. Use it for one node that undoes several steps: none of them still
// runs then. The run still counts as failed; if the node fails as well, RunError lists its failure, too.
//
// It is a join: all upstreams of the node belong to it, so the node takes no results. FailureOf is what it can take of
// them.
func OnAnyFailure(refs ...Upstream) JoinOption {
	return func(n *nodeSettings) {
		n.spec.Join.LetRun = true
		n.joins = append(n.joins, joinDraft{Join: flowgraph.Join{Policy: flowgraph.JoinAnyFailure}, refs: refs})
	}
}

// failure lowers a binding of FailureOf.
func (l lowering) failure(d draft, at *flowgraph.Position) flowgraph.Expr {
	e := flowgraph.Expr{Kind: flowgraph.ExprFailure}
	for i := range d.items {
		item := l.ref(d.items[i], at.Item(i))
		switch item.Kind {
		case flowgraph.ExprInput:
			l.b.faults.Add(l.node, at.Item(i).String(), flowgraph.ErrEdge, "the flow's input cannot fail")
		case flowgraph.ExprNode:
			e.Nodes = append(e.Nodes, item.Node)
		}
	}
	return e
}
