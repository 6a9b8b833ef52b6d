package runtime

import (
	"time"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// CategoryWorkerLost is the category of a node that failed because too many workers were lost while they ran it.
const CategoryWorkerLost = engine.CategoryWorkerLost

// NodeFailure describes a node that did not succeed.
type NodeFailure struct {
	Node string
	// Outcome is flow.Failed, flow.Expired or flow.Cancelled.
	Outcome flow.Outcome
	// Category and Reason describe the failure of the last attempt. A cancelled node has the reason of the cancellation
	// and no category.
	Category, Reason string
	// At is when the node ended, by the engine's clock.
	At time.Time
	// Attempts counts the attempts that were started.
	Attempts int
	// MadeUpFor reports whether a join tolerated the failure because other upstreams succeeded, so that it does not
	// fail the run.
	MadeUpFor bool
}

// RunError describes a run that did not succeed. It matches ErrRunFailed, ErrRunCancelled or ErrRunExpired.
type RunError struct {
	Flow, Run string
	// Outcome is flow.Failed, flow.Cancelled or flow.Expired.
	Outcome flow.Outcome
	// Node is the node that failed first. If no node failed and some were cancelled by CancelNode, it is the first of
	// those. Empty when the whole run was cancelled or expired.
	Node string
	// Reason is the error of that node, or the reason of the cancellation.
	Reason string
	// Category is the category of the failure: a constant of package activity or of this package, or one that the
	// activity chose. It is empty for a cancelled run, and activity.CategoryTimeout for an expired one.
	Category string
	// Failures are the nodes that failed, expired or were cancelled by CancelNode, the earliest first. They include
	// nodes behind failure edges and failures that a join tolerated, but not nodes that ended because the whole run
	// did. At most 100 are listed; OmittedFailures counts the others. The list is empty when it could not be read.
	Failures        []NodeFailure
	OmittedFailures int
}

// Error returns a text with the run, the node, the reason and the number of other failed nodes.
func (e *RunError) Error() string {
	return submit.FailureText(e.Flow, e.Run, string(e.Outcome), e.Node, e.Reason, e.others())
}

// others counts the failures beside the first one.
func (e *RunError) others() int {
	count := e.OmittedFailures
	for _, f := range e.Failures {
		if f.Outcome != flow.Cancelled && !f.MadeUpFor && f.Node != e.Node {
			count++
		}
	}
	return count
}

// Unwrap returns ErrRunFailed, ErrRunCancelled or ErrRunExpired.
func (e *RunError) Unwrap() error { return submit.OutcomeError(string(e.Outcome)) }

// newRunError converts a failure for callers of the API.
func newRunError(f *submit.RunFailure) *RunError {
	e := &RunError{
		Flow: f.Flow, Run: f.Run, Outcome: flow.Outcome(f.Outcome), Node: f.Node, Reason: f.Reason,
		Category: f.Category, OmittedFailures: f.Omitted,
	}
	for _, n := range f.Failures {
		e.Failures = append(e.Failures, NodeFailure{
			Node: n.Node, Outcome: flow.Outcome(n.Outcome), Category: n.Category, Reason: n.Reason, At: n.At,
			Attempts: n.Attempts, MadeUpFor: n.Tolerated,
		})
	}
	return e
}
