// Package recordstate has the texts of states in the engine's records that Go code compares or writes. The states of
// nodes are in package fabrictype.
package recordstate

import (
	"cmp"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

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

// Began returns when a run last began: with its last rerun, else when it was to start, else with its creation. Times
// that do not apply are zero.
func Began(created, startsAt, rerunAt time.Time) time.Time {
	began := created
	for _, at := range []time.Time{startsAt, rerunAt} {
		if at.After(began) {
			began = at
		}
	}
	return began
}

// storedRunStates are the engine's words for the states of runs, as its lists take them.
var storedRunStates = map[fabrictype.RunState]string{
	fabrictype.RunRunning: "open", fabrictype.RunSucceeded: "success", fabrictype.RunFailed: "failed",
	fabrictype.RunCancelled: "cancelled", fabrictype.RunExpired: "expired",
}

// StoredRunState returns the engine's word for a state of runs, as its lists take it; "" for an unknown state.
func StoredRunState(state fabrictype.RunState) string { return storedRunStates[state] }

// RunState returns the state of a run whose state and outcome the engine has in these words. The outcome is more
// specific; it is empty while the run is open.
func RunState(state, outcome string) fabrictype.RunState {
	switch word := cmp.Or(outcome, state); word {
	case "open":
		return fabrictype.RunRunning
	case "success", "completed":
		return fabrictype.RunSucceeded
	default:
		return fabrictype.RunState(word)
	}
}
