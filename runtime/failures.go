package runtime

import (
	"time"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// CategoryWorkerLost is the category of a node that has failed because too many workers were lost while they ran it.
const CategoryWorkerLost = engine.CategoryWorkerLost

// NodeFailure is how one node of a run ended that did not succeed.
type NodeFailure struct {
	Node string
	// Outcome is flow.Failed, flow.Expired or flow.Cancelled.
	Outcome flow.Outcome
	// Category and Reason are those of the last attempt's failure. A node that was cancelled has the reason of that and
	// no category.
	Category, Reason string
	// At is when the node ended, by the engine's clock.
	At time.Time
	// Attempts counts the attempts begun.
	Attempts int
	// MadeUpFor reports that the failure is not the run's: another upstream has satisfied the join behind the node.
	MadeUpFor bool
}

// RunError is how a run ended that did not succeed. It matches ErrRunFailed, ErrRunCancelled or ErrRunExpired.
type RunError struct {
	Flow, Run string
	// Outcome is flow.Failed, flow.Cancelled or flow.Expired.
	Outcome flow.Outcome
	// Node is the node that failed first; for a run of which only nodes were cancelled (CancelNode), the first of
	// those. Empty when the whole run was cancelled or has expired.
	Node string
	// Reason is the error of that node, or why it or the run was cancelled.
	Reason string
	// Category is the category of the failure: one of activity's or of this package's, or one that the activity chose.
	// Empty for a cancel, CategoryTimeout of package activity for a run that has expired.
	Category string
	// Failures are the nodes that failed, expired or were cancelled by CancelNode, the earliest first: also those
	// behind failure edges, which were to make up for another failure, and those that a join has made up for. Nodes
	// that ended because the whole run did are not among them. At most 100 are listed, and OmittedFailures counts the
	// others. The list is empty when it could not be read.
	Failures        []NodeFailure
	OmittedFailures int
}

// Error names the run, the node and the reason, and how many more nodes have failed.
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

// Unwrap returns the sentinel of the outcome.
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
