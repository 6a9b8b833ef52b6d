package runtime

import (
	"errors"
	"fmt"
)

// Errors of runs and workers, for errors.Is. Those of the connection are enginecore's: ErrUnavailable, and with it ErrFull where a
// server takes in nothing for want of memory or disk; ErrOutcomeUnknown, ErrUnauthorized.
var (
	// ErrRunID marks a run id that is empty, longer than MaxRunID, not valid UTF-8 or has control characters.
	ErrRunID = errors.New("bad run id")
	// ErrRunConflict is returned by Start when the run id is taken by a run with another graph or another input.
	ErrRunConflict = errors.New("run id is taken by another run")
	// ErrRunNotFound is returned when there is no run of that flow with that id.
	ErrRunNotFound = errors.New("no such run")
	// ErrRunOpen is returned by Purge and Rerun when the run is not over.
	ErrRunOpen = errors.New("run is not over")
	// ErrNothingToRerun is returned by Rerun when its scope holds no node, and of a run that was stopped before all of it was submitted.
	ErrNothingToRerun = errors.New("nothing to run again")
	// ErrRerunLimit is returned by Rerun when a node has been run again as often as it may.
	ErrRerunLimit = errors.New("run again too often")
	// ErrUnknownNode is returned for a node that the run does not have.
	ErrUnknownNode = errors.New("no such node")
	// ErrNodeOver is returned by CancelNode when the node has ended already.
	ErrNodeOver = errors.New("node is over")
	// ErrRunOver is returned by Cancel when the run has ended already.
	ErrRunOver = errors.New("run is over")
	// ErrRunFailed matches the *RunError of a run of which a node failed.
	ErrRunFailed = errors.New("run failed")
	// ErrRunCancelled matches the *RunError of a run that was cancelled.
	ErrRunCancelled = errors.New("run was cancelled")
	// ErrRunExpired matches the *RunError of a run that exceeded its deadline.
	ErrRunExpired = errors.New("run exceeded its deadline")
	// ErrNoResult is returned by Result when the run is over without a failure, but the node whose result it returns did
	// not run: only a replay of single nodes with other tools leads there.
	ErrNoResult = errors.New("run has no result, its result node did not succeed")
	// ErrTooLarge marks an input or a result above its limit.
	ErrTooLarge = errors.New("too large")

	// ErrRegistration marks an activity that a worker cannot take.
	ErrRegistration = errors.New("activity cannot be registered")
	// ErrWorkerConfig marks an option of a worker or keeper that makes no sense.
	ErrWorkerConfig = errors.New("bad worker configuration")
)

// Causes of the context of a running activity, for context.Cause and errors.Is.
var (
	// ErrLeaseLost: the worker may no longer speak for the execution, and another one may have taken it over.
	ErrLeaseLost = errors.New("lease lost")
	// ErrCancelled: the execution was cancelled.
	ErrCancelled = errors.New("execution cancelled")
	// ErrStopping: the worker stops and gives the execution back.
	ErrStopping = errors.New("worker is stopping")
	// ErrHeartbeatTimeout: the activity did not call Heartbeat in time.
	ErrHeartbeatTimeout = errors.New("no heartbeat in time")
	// ErrStartToClose: the attempt took longer than its start-to-close timeout.
	ErrStartToClose = errors.New("start-to-close timeout")
	// ErrDeadline: the run exceeded its deadline.
	ErrDeadline = errors.New("deadline of the run")
)

// RunError is how a run ended that did not succeed. It matches ErrRunFailed, ErrRunCancelled or ErrRunExpired.
type RunError struct {
	Flow, Run string
	// Outcome is failed, cancelled or expired.
	Outcome string
	// Node is the node that failed first; for a run of which only nodes were cancelled (CancelNode), the first of those. Empty
	// when the whole run was cancelled or has expired.
	Node string
	// Reason is the error of that node, or why it or the run was cancelled.
	Reason string
	// Category is the category of the failure: one of activity's or of this package's, or one that the activity chose. Empty
	// for a cancel, CategoryTimeout of package activity for a run that has expired.
	Category string
	// Failures are the nodes that failed, expired or were cancelled by CancelNode, the earliest first: also those behind failure
	// edges, which were to make up for another failure, and those that a join has made up for. Nodes that ended because the
	// whole run did are not among them. At most MaxFailures are listed, and OmittedFailures counts the others. The list is
	// empty when it could not be read.
	Failures        []NodeFailure
	OmittedFailures int
}

// Error names the run, the node and the reason, and how many more nodes have failed.
func (e *RunError) Error() string {
	text := fmt.Sprintf("run %s of flow %s: %s", e.Run, e.Flow, e.Unwrap())
	if e.Node != "" {
		text += ": node " + e.Node
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if more := e.others(); more == 1 {
		text += " (and 1 more failed)"
	} else if more > 1 {
		text += fmt.Sprintf(" (and %d more failed)", more)
	}
	return text
}

// others counts the failures beside the first one.
func (e *RunError) others() int {
	count := e.OmittedFailures
	for _, f := range e.Failures {
		if f.Outcome != "cancelled" && !f.MadeUpFor && f.Node != e.Node {
			count++
		}
	}
	return count
}

// Unwrap returns the sentinel of the outcome.
func (e *RunError) Unwrap() error {
	switch e.Outcome {
	case "cancelled":
		return ErrRunCancelled
	case "expired":
		return ErrRunExpired
	}
	return ErrRunFailed
}
