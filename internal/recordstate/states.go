package recordstate

import "github.com/flowfabric/flowfabric-go/fabrictype"

// Phases of executions.
const (
	PhaseRunnable = "runnable"
	PhaseActive   = "active"
	PhaseTerminal = "terminal"
)

// Eligibilities of runnable executions.
const (
	EligibleNow              = "eligible_now"
	EligibilityBlockedByDeps = "blocked_by_dependencies"
)

// OutcomeSkipped is the terminal outcome of an execution that did not run.
const OutcomeSkipped = "skipped"

// States of flows.
const (
	FlowOpen      = "open"
	FlowCompleted = "completed"
	FlowCancelled = "cancelled"
)

// States of waitpoints.
const (
	WaitpointPending = "pending" // made ahead of its wait
	WaitpointActive  = "active"  // something waits at it
)

// SignalResumed is the effect of a signal that ended the wait at its waitpoint.
const SignalResumed = "resume_condition_satisfied"

// StreamAttemptSucceeded is the reason for which the output stream of an attempt was closed that succeeded.
const StreamAttemptSucceeded = "attempt_success"

// NodeStates lists the states of nodes.
func NodeStates() []fabrictype.NodeState {
	return []fabrictype.NodeState{
		fabrictype.NodeWaiting, fabrictype.NodeDelayed, fabrictype.NodeRateLimited, fabrictype.NodeWaitingChildren,
		fabrictype.NodeActive, fabrictype.NodeSuspended, fabrictype.NodeSucceeded, fabrictype.NodeFailed,
		fabrictype.NodeCancelled, fabrictype.NodeExpired, fabrictype.NodeSkipped,
	}
}
