package runtime

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// MaxFailures bounds the failures that a RunError lists.
const MaxFailures = 100

// failuresPage is the number of nodes looked at by one call.
const failuresPage = 250

// NodeFailure is how one node of a run ended that did not succeed.
type NodeFailure struct {
	Node string
	// Outcome is failed, expired or cancelled.
	Outcome string
	// Category and Reason are those of the last attempt's failure. A node that was cancelled has the reason of that and no category.
	Category, Reason string
	// At is when the node ended, by the engine's clock.
	At time.Time
	// Attempts counts the attempts begun.
	Attempts int
	// MadeUpFor reports that the failure is not the run's: another upstream has satisfied the join behind the node.
	MadeUpFor bool
}

// failures lists the nodes of a run that failed, expired, or were cancelled by themselves, the earliest first, at most
// MaxFailures of them, and tells how many were left out. Of those that ended at the same time, the named one is first.
func (e *session) failures(ctx context.Context, p enginecore.Partition, id enginecore.FlowID, first string) (list []NodeFailure, omitted int, err error) {
	earlier := func(a, b NodeFailure) int {
		if c := a.At.Compare(b.At); c != 0 || a.Node == b.Node {
			return c
		}
		switch first {
		case a.Node:
			return -1
		case b.Node:
			return 1
		}
		return cmp.Compare(a.Node, b.Node)
	}
	// A listing in pages may show a node twice.
	seen := make(map[enginecore.ExecutionID]bool)
	call := enginecore.FlowFailuresCall{Partition: p, FlowID: id, Limit: failuresPage}
	for {
		reply, err := e.calls.FlowFailures(ctx, call)
		if err != nil {
			return nil, 0, err
		}
		for _, f := range reply.Failures {
			if !seen[f.ExecutionID] {
				seen[f.ExecutionID] = true
				list = append(list, readFailure(f))
			}
		}
		slices.SortFunc(list, earlier)
		list = list[:min(len(list), MaxFailures)]
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return list, len(seen) - len(list), nil
		}
	}
}

func readFailure(f enginecore.FlowFailure) NodeFailure {
	n := NodeFailure{Node: f.Node, Outcome: f.Outcome, At: f.EndedAt, Attempts: int(f.Attempts), MadeUpFor: f.Absorbed}
	n.Reason, n.Category = plainFailure(f.Reason, f.Category)
	return n
}

// firstFailure is the first one in a list that is the run's, nil when there is none.
func firstFailure(list []NodeFailure) *NodeFailure {
	i := slices.IndexFunc(list, func(f NodeFailure) bool { return f.Outcome != "cancelled" && !f.MadeUpFor })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// runError is how a run ended that did not succeed. What its nodes failed of is read from the engine.
func (e *session) runError(ctx context.Context, flowName, runID string, id enginecore.FlowID, p enginecore.Partition, reply enginecore.FlowResultReply) *RunError {
	failed := &RunError{Flow: flowName, Run: runID, Outcome: reply.Outcome}
	// How the run ended is known, so an engine that is away by now is no reason to tell something else.
	failed.Failures, failed.OmittedFailures, _ = e.failures(ctx, p, id, reply.FailedNode)
	switch reply.Outcome {
	case "expired":
		failed.Category = activity.CategoryTimeout
	case "cancelled":
		failed.Reason = reply.CancelReason
		if i := slices.IndexFunc(failed.Failures, func(f NodeFailure) bool { return f.Outcome == "cancelled" }); i >= 0 {
			failed.Node, failed.Reason = failed.Failures[i].Node, failed.Failures[i].Reason
		}
	default:
		failed.Node = reply.FailedNode
		failed.Reason, failed.Category = plainFailure(reply.FailureReason, reply.FailureCategory)
		if first := firstFailure(failed.Failures); first != nil {
			failed.Node, failed.Reason, failed.Category = first.Node, first.Reason, first.Category
		}
	}
	return failed
}

// nameFailure corrects the failure of a run that has joins: the engine notes what it knew when the run was sure to fail.
func (c *Client) nameFailure(ctx context.Context, p enginecore.Partition, d *Description) error {
	if d.FailedNode == "" || d.Graph == nil || !hasJoin(d.Graph) {
		return nil
	}
	list, _, err := c.session.failures(ctx, p, d.FlowID, d.FailedNode)
	if err != nil {
		return err
	}
	if first := firstFailure(list); first != nil {
		d.FailedNode, d.FailureReason, d.FailureCategory = first.Node, first.Reason, first.Category
	}
	return nil
}

func hasJoin(g *flowgraph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n flowgraph.Node) bool { return n.Join.Policy != flowgraph.JoinAll })
}
