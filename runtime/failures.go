package runtime

import (
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/errordetail"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// NodeFailure describes a node that did not succeed.
type NodeFailure struct {
	Node string
	// Outcome is fabrictype.OutcomeFailed, OutcomeExpired or OutcomeCancelled.
	Outcome fabrictype.Outcome
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
	// Details are the errors with names in the chain of the node's last error, the outermost first, at most 16: of
	// types with a method ErrorName, of activity.SentinelError, and of this library. errors.Is and errors.As with a
	// pointer to the NodeFailure find them.
	Details []activity.ErrorDetail
}

// Error returns the node and the reason.
func (f *NodeFailure) Error() string {
	text := "node " + f.Node + ": " + string(f.Outcome)
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	return text
}

// Is reports whether the node failed by an error with the name of the target: an error of activity.SentinelError, one
// with a method ErrorName, or a sentinel of this library or of package context.
func (f *NodeFailure) Is(target error) bool { return engine.IsInDetails(f.details(), target) }

// As sets the target, a type with a method ErrorName, to the error of that name by which the node failed.
func (f *NodeFailure) As(target any) bool { return errordetail.As(f.details(), target) }

func (f *NodeFailure) details() []errordetail.Detail {
	if f == nil || len(f.Details) == 0 {
		return nil
	}
	list := make([]errordetail.Detail, len(f.Details))
	for i, d := range f.Details {
		list[i] = errordetail.Detail(d)
	}
	return list
}

// RunError describes a run that did not succeed. It matches ErrRunFailed, ErrRunCancelled or ErrRunExpired, and the
// errors that the NodeFailure of its Node matches, except errors that a call which waits for the run returns for
// itself: errors of the connection and of contexts, ErrInvalid, ErrNoResult and ErrNotFound.
type RunError struct {
	Flow, Run string
	// Outcome is fabrictype.OutcomeFailed, OutcomeCancelled or OutcomeExpired.
	Outcome fabrictype.Outcome
	// Node is the node that failed first. If no node failed and some were cancelled by CancelNode, it is the first of
	// those. Empty when the whole run was cancelled or expired.
	Node string
	// Reason is the error of that node, or the reason of the cancellation.
	Reason string
	// Category is the category of the failure: a constant of package activity, one that the activity chose, or one that
	// workers and keepers assign: "plan" for a node of flow.Expand whose plan cannot be run, "too_deep" for a plan that
	// would be nested deeper than flow.ExpandDepth allows, "too_many_turns" for a flow.Loop whose condition does not
	// hold after its last turn, "too_large" for a result above 1 MiB, "journal_full" for an execution with too many
	// or too large steps and waits, "child_run" for a node whose child run was cancelled, expired, or no longer exists,
	// and "worker_lost" for a node that lost too many workers. It is empty for a cancelled run, and
	// "timeout" for an expired one.
	Category string
	// Failures are the nodes that failed, expired or were cancelled by CancelNode, the earliest first. They include
	// nodes after failure edges and failures that a join tolerated, but not nodes that ended because the whole run did.
	// At most 100 are listed; OmittedFailures counts the others. The list is empty when it could not be read.
	Failures        []NodeFailure
	OmittedFailures int
}

// Error returns a text with the run, the node, the reason and the number of other failed nodes.
func (e *RunError) Error() string {
	return submit.FailureText(e.Flow, e.Run, string(e.Outcome), e.Node, e.Reason, e.others())
}

// others counts the failures in addition to the first one.
func (e *RunError) others() int {
	count := e.OmittedFailures
	for _, f := range e.Failures {
		if f.Outcome != fabrictype.OutcomeCancelled && !f.MadeUpFor && f.Node != e.Node {
			count++
		}
	}
	return count
}

// Unwrap returns ErrRunFailed, ErrRunCancelled or ErrRunExpired.
func (e *RunError) Unwrap() error { return submit.OutcomeError(string(e.Outcome)) }

// Is reports whether the failure of Node matches the target: see RunError.
func (e *RunError) Is(target error) bool {
	return !engine.IsErrorOfCall(target) && e.first().Is(target)
}

// As sets the target to the error of its name by which Node failed, or a **NodeFailure to that failure.
func (e *RunError) As(target any) bool {
	first := e.first()
	if out, ok := target.(**NodeFailure); ok && first != nil {
		*out = first
		return true
	}
	return first.As(target)
}

// first returns the failure of Node; nil if it is not known.
func (e *RunError) first() *NodeFailure {
	for i := range e.Failures {
		if e.Failures[i].Node == e.Node {
			return &e.Failures[i]
		}
	}
	return nil
}

// newRunError converts a failure for callers of the API.
func newRunError(f *submit.RunFailure) *RunError {
	e := &RunError{
		Flow: f.Flow, Run: f.Run, Outcome: fabrictype.Outcome(f.Outcome), Node: f.Node, Reason: f.Reason,
		Category: f.Category, OmittedFailures: f.Omitted,
	}
	for _, n := range f.Failures {
		failure := NodeFailure{
			Node: n.Node, Outcome: fabrictype.Outcome(n.Outcome), Category: n.Category, Reason: n.Reason, At: n.At,
			Attempts: n.Attempts, MadeUpFor: n.Tolerated,
		}
		for _, d := range n.Details {
			failure.Details = append(failure.Details, activity.ErrorDetail(d))
		}
		e.Failures = append(e.Failures, failure)
	}
	return e
}
