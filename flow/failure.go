package flow

import (
	"reflect"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/errordetail"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Failure is how a node ended that did not succeed, as a value for other nodes: see FailureOf.
type Failure struct {
	// Node is the name of the node; empty in the zero value, which means that no node failed.
	Node string `json:"node,omitempty"`
	// Outcome is fabrictype.OutcomeFailed, OutcomeCancelled or OutcomeExpired.
	Outcome fabrictype.Outcome `json:"outcome,omitempty"`
	// Category and Reason describe the failure of the node's last attempt, or the cause of its cancellation.
	Category string `json:"category,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Details are the errors with names in the chain of the node's last error, the outermost first, at most 16. Err
	// finds them by type and name.
	Details []activity.ErrorDetail `json:"details,omitempty"`
	// MayStillRun is set if the node was ended while a worker ran its function, in a flow that has a node with Finally,
	// and the worker's lease ended before it reported that the function has returned: it is lost, or cannot reach the
	// engine, or the function does not heed the end of its context.
	MayStillRun bool `json:"may_still_run,omitempty"`
}

// Err returns the failure as an error whose text has the node and the reason; nil for the zero value. errors.As finds
// an activity.DetailedError by which the node failed, and errors.Is an activity.SentinelError and the sentinels of
// packages activity, runtime and context:
//
//	var stock *OutOfStock
//	if errors.As(failure.Err(), &stock) {
//
// The errors of package enginecore, which report faults of connections and the engine's error replies, have only their
// names in Details.
func (f Failure) Err() error {
	if f.Node == "" {
		return nil
	}
	return &outcomeError{"node " + f.Node, f.Outcome, f.Reason, f.Details}
}

// outcomeError is the error of a node or an item that did not succeed.
type outcomeError struct {
	of      string
	outcome fabrictype.Outcome
	reason  string
	details []activity.ErrorDetail
}

// Error returns a text with the node or run that did not succeed, its outcome and the reason.
func (e *outcomeError) Error() string {
	text := e.of + ": " + string(e.outcome)
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// Is reports whether an error of the target's name is among the details.
func (e *outcomeError) Is(target error) bool { return errordetail.Is(e.stored(), target, nil) }

// As sets the target to the error of its name among the details.
func (e *outcomeError) As(target any) bool { return errordetail.As(e.stored(), target) }

func (e *outcomeError) stored() []errordetail.Detail {
	list := make([]errordetail.Detail, len(e.details))
	for i, d := range e.details {
		list[i] = errordetail.Detail(d)
	}
	return list
}

// FailureOf is the failure of whichever of the nodes failed, expired or was cancelled first, for the input of a node
// that runs for it. It adds no edges: the node must wait for each of refs by OnAnyFailure, OnFailure or Always, or have
// Finally. With Always and Finally it is the zero value when none of them failed. With Finally it also reports a node
// that ended because the whole run was cancelled or exceeded its deadline.
//
//	flow.Node(f, "undo", undo, flow.FailureOf(book, pay, ship), flow.OnAnyFailure(book, pay, ship))
func FailureOf(refs ...Upstream) Binding[Failure] {
	items := make([]draft, len(refs))
	for i, ref := range refs {
		if ref != nil {
			items[i] = ref.constOrRef()
		}
	}
	return bound[Failure]{draft{kind: draftFailure, typ: reflect.TypeFor[Failure](), items: items}}
}

// OnAnyFailure lets the node start when all of the given nodes have ended and at least one of them has failed, expired
// or been cancelled; it is skipped when none has. Use it for one node that undoes several steps: none of them still
// runs then. The run still counts as failed; if the node fails as well, RunError lists its failure, too.
//
// It is a join: all upstreams of the node belong to it, so the node takes no results. It can take their failure with
// FailureOf.
func OnAnyFailure(refs ...Upstream) JoinOption {
	return JoinOption{func(n *nodeSettings) {
		n.spec.Join.LetRun = true
		n.joins = append(n.joins, joinDraft{Join: flowgraph.Join{Policy: flowgraph.JoinAnyFailure}, refs: refs})
	}}
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
