package runtime

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

const (
	// maxFailures bounds the failures that a runFailure lists.
	maxFailures = 100
	// failuresPage is the number of nodes looked at by one call.
	failuresPage = 250
)

// runFailure is how a run ended that did not succeed; RunError describes the fields.
type runFailure struct {
	flow, run              string
	outcome                string
	node, reason, category string
	failures               []nodeFailure
	omitted                int
}

// nodeFailure is how one node of a run ended that did not succeed; NodeFailure describes the fields.
type nodeFailure struct {
	node, outcome    string
	category, reason string
	at               time.Time
	attempts         int
	tolerated        bool // by a join that another upstream has satisfied
}

// Error is the text of the RunError.
func (f *runFailure) Error() string {
	others := f.omitted
	for _, n := range f.failures {
		if n.outcome != "cancelled" && !n.tolerated && n.node != f.node {
			others++
		}
	}
	return failureText(f.flow, f.run, f.outcome, f.node, f.reason, others)
}

// Unwrap returns the sentinel of the outcome.
func (f *runFailure) Unwrap() error { return outcomeError(f.outcome) }

// outcomeError returns the sentinel of the outcome of a run that did not succeed.
func outcomeError(outcome string) error {
	switch outcome {
	case "cancelled":
		return ErrRunCancelled
	case "expired":
		return ErrRunExpired
	}
	return ErrRunFailed
}

// failureText names a run, the node that failed first and its reason, and counts the other nodes that failed.
func failureText(flow, run, outcome, node, reason string, others int) string {
	text := fmt.Sprintf("run %s of flow %s: %s", run, flow, outcomeError(outcome))
	if node != "" {
		text += ": node " + node
	}
	if reason != "" {
		text += ": " + reason
	}
	if others == 1 {
		text += " (and 1 more failed)"
	} else if others > 1 {
		text += fmt.Sprintf(" (and %d more failed)", others)
	}
	return text
}

// readFailures lists the nodes of a run that failed, expired, or were cancelled by themselves, the earliest first, at most
// maxFailures of them, and counts those that were left out. Of those that ended at the same time, the named one is first.
func readFailures(ctx context.Context, s *session, p enginecore.Partition, id enginecore.FlowID, first string) (list []nodeFailure, omitted int, err error) {
	earlier := func(a, b nodeFailure) int {
		if c := a.at.Compare(b.at); c != 0 || a.node == b.node {
			return c
		}
		switch first {
		case a.node:
			return -1
		case b.node:
			return 1
		}
		return cmp.Compare(a.node, b.node)
	}
	// A listing in pages may show a node twice.
	seen := make(map[enginecore.ExecutionID]bool)
	call := enginerpc.FlowFailuresCall{Partition: p, FlowID: id, Limit: failuresPage}
	for {
		reply, err := s.backend.FlowFailures(ctx, call)
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
		list = list[:min(len(list), maxFailures)]
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return list, len(seen) - len(list), nil
		}
	}
}

func readFailure(f enginerpc.FlowFailure) nodeFailure {
	n := nodeFailure{node: f.Node, outcome: f.Outcome, at: f.EndedAt, attempts: int(f.Attempts), tolerated: f.Absorbed}
	n.reason, n.category = plainFailure(f.Reason, f.Category)
	return n
}

// firstFailure is the first one in a list that is the run's, nil when there is none.
func firstFailure(list []nodeFailure) *nodeFailure {
	i := slices.IndexFunc(list, func(f nodeFailure) bool { return f.outcome != "cancelled" && !f.tolerated })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// readRunFailure returns how a run ended that did not succeed. What its nodes failed of is read from the engine.
func readRunFailure(ctx context.Context, s *session, flowName, runID string, id enginecore.FlowID, p enginecore.Partition, reply enginerpc.FlowResultReply) *runFailure {
	failed := &runFailure{flow: flowName, run: runID, outcome: reply.Outcome}
	// How the run ended is known, so an engine that is away by now is no reason to tell something else.
	failed.failures, failed.omitted, _ = readFailures(ctx, s, p, id, reply.FailedNode)
	switch reply.Outcome {
	case "expired":
		failed.category = activity.CategoryTimeout
	case "cancelled":
		failed.reason = reply.CancelReason
		if i := slices.IndexFunc(failed.failures, func(f nodeFailure) bool { return f.outcome == "cancelled" }); i >= 0 {
			failed.node, failed.reason = failed.failures[i].node, failed.failures[i].reason
		}
	default:
		failed.node = reply.FailedNode
		failed.reason, failed.category = plainFailure(reply.FailureReason, reply.FailureCategory)
		if first := firstFailure(failed.failures); first != nil {
			failed.node, failed.reason, failed.category = first.node, first.reason, first.category
		}
	}
	return failed
}
