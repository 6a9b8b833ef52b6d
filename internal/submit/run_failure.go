package submit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errordetail"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	// MaxFailures bounds the failures that a RunFailure lists.
	MaxFailures = 100
	// failuresPage is the number of nodes that one call reads.
	failuresPage = 250
)

// RunFailure describes how a run ended that did not succeed. runtime.RunError explains the fields.
type RunFailure struct {
	Flow, Run              string
	Outcome                string
	Node, Reason, Category string
	Failures               []NodeFailure
	Omitted                int
}

// NodeFailure is how one node of a run ended that did not succeed; runtime.NodeFailure describes the fields.
type NodeFailure struct {
	Node, Outcome    string
	Category, Reason string
	At               time.Time
	Attempts         int
	Tolerated        bool // by a join that another upstream has satisfied
	Unreleased       bool // the engine ended it, and its worker has not reported that the function has returned
	Details          []errordetail.Detail
}

// Details returns the error details of the failure of the run's Node.
func (f *RunFailure) Details() []errordetail.Detail {
	for i := range f.Failures {
		if f.Failures[i].Node == f.Node {
			return f.Failures[i].Details
		}
	}
	return nil
}

// As sets a list of details to the details of the failure, so that a node which fails by a child run passes them on.
func (f *RunFailure) As(target any) bool { return errordetail.As(f.Details(), target) }

// Error returns the text of the run's RunError.
func (f *RunFailure) Error() string {
	return FailureText(f.Flow, f.Run, f.Outcome, f.Node, f.Reason, f.Others())
}

// Others returns how many nodes failed besides Node.
func (f *RunFailure) Others() int {
	others := f.Omitted
	for _, n := range f.Failures {
		if n.Outcome != "cancelled" && !n.Tolerated && n.Node != f.Node {
			others++
		}
	}
	return others
}

// Unwrap returns the sentinel of the outcome.
func (f *RunFailure) Unwrap() error { return OutcomeError(f.Outcome) }

// OutcomeError returns the sentinel of the outcome of a run: [engine.ErrRunCancelled], [engine.ErrRunExpired] or
// [engine.ErrRunFailed].
func OutcomeError(outcome string) error {
	switch outcome {
	case "cancelled":
		return engine.ErrRunCancelled
	case "expired":
		return engine.ErrRunExpired
	}
	return engine.ErrRunFailed
}

// FailureText returns the message of a failed run: the run, the node that failed first, its reason, and the number of
// other nodes that failed.
func FailureText(flow, run, outcome, node, reason string, others int) string {
	text := fmt.Sprintf("run %s of flow %s: %s", run, flow, OutcomeError(outcome))
	if node == "" && reason == "" {
		return text + othersText(others)
	}
	return text + ": " + NodeFailureText(node, reason, others)
}

// NodeFailureText returns the part of FailureText about the node that failed first; one of node and reason may be "".
func NodeFailureText(node, reason string, others int) string {
	text := reason
	if node != "" {
		text = "node " + node
		if reason != "" {
			text += ": " + reason
		}
	}
	return text + othersText(others)
}

func othersText(others int) (text string) {
	if others == 1 {
		text += " (and 1 more failed)"
	} else if others > 1 {
		text += fmt.Sprintf(" (and %d more failed)", others)
	}
	return text
}

// ReadFailures returns the nodes of a run that failed, expired or were cancelled by themselves, the earliest first, at
// most [MaxFailures] of them, and the number of omitted ones. Of nodes that ended at the same time, the node named by
// first precedes.
func ReadFailures(
	ctx context.Context, s *engine.Session, p keyspace.Partition, id enginecore.FlowID, first string,
) (list []NodeFailure, omitted int, err error) {
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
	call := enginerpc.FlowFailuresCall{Partition: p, FlowID: id, Limit: failuresPage}
	for {
		reply, err := s.Backend.FlowFailures(ctx, call)
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

// ReadFailureOf returns the earliest failure of the given nodes of a run, also of one that ended because the whole run
// was cancelled or expired; nil if all of them succeeded or were skipped. Of nodes that ended at the same time, one
// that had begun precedes, then the one that is given first.
func ReadFailureOf(
	ctx context.Context, s *engine.Session, p keyspace.Partition, id enginecore.FlowID, nodes []string,
) (*NodeFailure, error) {
	var first *NodeFailure
	place := -1
	earlier := func(n *NodeFailure, at int) bool {
		if c := n.At.Compare(first.At); c != 0 {
			return c < 0
		}
		if had := first.Attempts > 0; had != (n.Attempts > 0) {
			return !had
		}
		return at < place
	}
	call := enginerpc.FlowFailuresCall{Partition: p, FlowID: id, Limit: failuresPage, Stopped: true}
	for {
		reply, err := s.Backend.FlowFailures(ctx, call)
		if err != nil {
			return nil, err
		}
		for _, f := range reply.Failures {
			n := readFailure(f)
			if at := slices.Index(nodes, n.Node); at >= 0 && (first == nil || earlier(&n, at)) {
				first, place = &n, at
			}
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return first, nil
		}
	}
}

func readFailure(f enginerpc.FlowFailure) NodeFailure {
	n := NodeFailure{Node: f.Node, Outcome: f.Outcome, At: f.EndedAt, Attempts: int(f.Attempts), Tolerated: f.Tolerated,
		Unreleased: f.Unreleased}
	n.Reason, n.Category = engine.PlainFailure(f.Reason, f.Category)
	if f.Outcome != "cancelled" {
		n.Details = engine.StoredDetails(f.Details, f.Reason)
	}
	return n
}

// ReadFirstFailure returns the earliest failure of a run that has joins and of which failedNode is recorded to have
// failed first; nil for a run without joins, whose record is exact, and if no failure counts.
func ReadFirstFailure(
	ctx context.Context, s *engine.Session, p keyspace.Partition, id enginecore.FlowID, g *flowgraph.Graph,
	failedNode string,
) (*NodeFailure, error) {
	hasJoin := func(n flowgraph.Node) bool { return n.Join.Policy != flowgraph.JoinAll }
	if !slices.ContainsFunc(g.Nodes, hasJoin) {
		return nil, nil
	}
	list, _, err := ReadFailures(ctx, s, p, id, failedNode)
	if err != nil {
		return nil, err
	}
	return FirstFailure(list), nil
}

// FirstFailure returns the first element that fails the run, neither cancelled nor tolerated; nil if there is none.
func FirstFailure(list []NodeFailure) *NodeFailure {
	i := slices.IndexFunc(list, func(f NodeFailure) bool { return f.Outcome != "cancelled" && !f.Tolerated })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// ReadKnownFailure reads the failure of a run of which the given one is known. It returns the given one if the run no
// longer has this failure, or could not be read.
func ReadKnownFailure(ctx context.Context, s *engine.Session, id enginecore.FlowID, known *RunFailure) *RunFailure {
	p, err := s.Core.FlowPartition(id)
	if err != nil {
		return known
	}
	reply, err := s.Backend.FlowResult(ctx, enginerpc.FlowResultCall{Partition: p, FlowID: id})
	if err != nil || reply.Outcome != known.Outcome {
		return known
	}
	return ReadRunFailure(ctx, s, known.Flow, known.Run, id, p, reply)
}

// CleanupFailed reports whether a node with flow.Finally has failed of a run that was cancelled. failedNode is the
// first node of the run that has failed, "" for none. Of a run that cannot be read, it reports that there is such a
// node.
func (s *Submitter) CleanupFailed(ctx context.Context, id enginecore.FlowID, failedNode string) bool {
	if failedNode == "" {
		return false
	}
	p, err := s.session.Core.FlowPartition(id)
	if err != nil {
		return true
	}
	nodes, err := s.ReadNodes(ctx, id, p)
	return err != nil || nodes.CleanupFailed()
}

// ReadRunFailure returns how a run ended, given the reply that reports its end without success. It reads the failures
// of the nodes from the engine and leaves them out if the engine is unavailable.
func ReadRunFailure(
	ctx context.Context, s *engine.Session, flowName, runID string, id enginecore.FlowID, p keyspace.Partition,
	reply enginerpc.FlowResultReply,
) *RunFailure {
	failed := &RunFailure{Flow: flowName, Run: runID, Outcome: reply.Outcome}
	// How the run ended is known, so it is returned even if the engine is unavailable by now.
	failed.Failures, failed.Omitted, _ = ReadFailures(ctx, s, p, id, reply.FailedNode)
	switch reply.Outcome {
	case "expired":
		failed.Category = activityspec.CategoryTimeout
	case "cancelled":
		failed.Reason = reply.CancelReason
		if i := slices.IndexFunc(failed.Failures, func(f NodeFailure) bool { return f.Outcome == "cancelled" }); i >= 0 {
			failed.Node, failed.Reason = failed.Failures[i].Node, failed.Failures[i].Reason
		}
	default:
		failed.Node = reply.FailedNode
		failed.Reason, failed.Category = engine.PlainFailure(reply.FailureReason, reply.FailureCategory)
		if first := FirstFailure(failed.Failures); first != nil {
			failed.Node, failed.Reason, failed.Category = first.Node, first.Reason, first.Category
		}
	}
	return failed
}
