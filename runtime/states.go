package runtime

import (
	"cmp"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// RunState is the state of a run. A state that is not among the constants comes from a newer engine; programs should
// accept it.
type RunState string

// States of runs. A run that has failed, expired or was cancelled may still have nodes that are ending, until ClosedAt
// of RunDescription or RunSummary.
const (
	// RunRunning: the run has not ended. It may be paused or wait for something.
	RunRunning RunState = "running"
	// RunSucceeded: all nodes have ended, and joins tolerated the failures and cancellations, if any.
	RunSucceeded RunState = "succeeded"
	// RunFailed: a node failed or expired, and no join tolerated it.
	RunFailed RunState = "failed"
	// RunCancelled: the run was cancelled, or nodes of it were and no node failed.
	RunCancelled RunState = "cancelled"
	// RunExpired: the run did not end before its deadline.
	RunExpired RunState = "expired"
)

// storedStates are the engine's words for states, as its lists take them.
var storedStates = map[RunState]string{
	RunRunning: "open", RunSucceeded: "success", RunFailed: "failed", RunCancelled: "cancelled", RunExpired: "expired",
}

// runState reads the state and the outcome of a run as the engine has them. The outcome says more; it is empty while
// the run is open.
func runState(state, outcome string) RunState {
	switch word := cmp.Or(outcome, state); word {
	case "open":
		return RunRunning
	case "success", "completed":
		return RunSucceeded
	default:
		return RunState(word)
	}
}

// NodeState is how a node of a run, or an item of a map, stands. The text is the engine's public state. A word that is
// not among the constants comes from a newer engine; programs should let it pass.
type NodeState string

// The states of nodes.
const (
	// NodeWaiting: nothing is missing but a worker, or the end of a pause or of something else that NodeDescription.Why
	// names.
	NodeWaiting = NodeState(enginecore.PublicWaiting)
	// NodeDelayed: it is due later, mostly for a retry.
	NodeDelayed = NodeState(enginecore.PublicDelayed)
	// NodeRateLimited: it waits for room under a limit or budget.
	NodeRateLimited = NodeState(enginecore.PublicRateLimited)
	// NodeWaitingChildren: it waits for its upstreams, or for the run of its map or sub-flow.
	NodeWaitingChildren = NodeState(enginecore.PublicWaitingChildren)
	// NodeActive: a worker runs it.
	NodeActive = NodeState(enginecore.PublicActive)
	// NodeSuspended: it waits for signals.
	NodeSuspended = NodeState(enginecore.PublicSuspended)
	// NodeSucceeded: its function has returned a result. The text is "completed".
	NodeSucceeded = NodeState(enginecore.PublicCompleted)
	// NodeFailed: an attempt failed and no other follows.
	NodeFailed = NodeState(enginecore.PublicFailed)
	// NodeCancelled: it was cancelled, by itself or with its run.
	NodeCancelled = NodeState(enginecore.PublicCancelled)
	// NodeExpired: a deadline or timeout has ended it.
	NodeExpired = NodeState(enginecore.PublicExpired)
	// NodeSkipped: it did not run because of how its upstreams ended.
	NodeSkipped = NodeState(enginecore.PublicSkipped)
)

// Ended reports whether a node in this state has ended. It may still run again, by a rerun.
func (s NodeState) Ended() bool { return enginecore.PublicState(s).Terminal() }
