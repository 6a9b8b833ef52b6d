package runtime

import (
	"cmp"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// RunState is the state of a run. A state that is not among the constants comes from a newer engine; programs should
// accept it.
type RunState string

// States of runs. A run that has failed, expired or was cancelled may still have nodes that are ending, until ClosedAt
// of RunDescription or RunSummary.
const (
	// RunRunning: the run has not ended. It may be paused or wait for something.
	RunRunning fabrictype.RunState = "running"
	// RunSucceeded: all nodes have ended, and joins tolerated the failures and cancellations, if any. The outcome of
	// the run is flow.Succeeded, whose text is "success".
	RunSucceeded fabrictype.RunState = "succeeded"
	// RunFailed: a node failed or expired, and no join tolerated it.
	RunFailed fabrictype.RunState = "failed"
	// RunCancelled: the run was cancelled, or nodes of it were and no node failed.
	RunCancelled fabrictype.RunState = "cancelled"
	// RunExpired: the run did not end before its deadline.
	RunExpired fabrictype.RunState = "expired"
)

// storedStates are the engine's words for states, as its lists take them.
var storedStates = map[fabrictype.RunState]string{
	fabrictype.RunRunning: "open", fabrictype.RunSucceeded: "success", fabrictype.RunFailed: "failed", fabrictype.RunCancelled: "cancelled", fabrictype.RunExpired: "expired",
}

// runState reads the state and the outcome of a run as the engine has them. The outcome says more; it is empty while
// the run is open.
func runState(state, outcome string) fabrictype.RunState {
	switch word := cmp.Or(outcome, state); word {
	case "open":
		return fabrictype.RunRunning
	case "success", "completed":
		return fabrictype.RunSucceeded
	default:
		return fabrictype.RunState(word)
	}
}

// NodeState is the state of a node of a run, or of an item of a map. Its text is the engine's public state, some words
// of which come from the FlowFabric contract and are wider than they sound: see the constants. A state that is not
// among the constants comes from a newer engine; programs should accept it.
type NodeState string

// States of nodes. NodeDescription.Why says what a node that has not ended waits for.
const (
	// NodeWaiting: the node waits for a free worker, or for the end of a pause.
	NodeWaiting = fabrictype.NodeState(enginecore.PublicWaiting)
	// NodeDelayed: the node is due later, in most cases for a retry.
	NodeDelayed = fabrictype.NodeState(enginecore.PublicDelayed)
	// NodeRateLimited: the node is blocked although its upstreams have ended: it waits for room under a limit or in a
	// budget, for a worker that has registered its activity and offers its capabilities, or for the end of a pause of
	// its activity or run. The text is "rate_limited" in all these cases.
	NodeRateLimited = fabrictype.NodeState(enginecore.PublicRateLimited)
	// NodeWaitingChildren: the node waits for its upstreams. A map or sub-flow node is also in this state while its
	// child run is open. The text is "waiting_children" in both cases.
	NodeWaitingChildren = fabrictype.NodeState(enginecore.PublicWaitingChildren)
	// NodeActive: a worker runs the node.
	NodeActive = fabrictype.NodeState(enginecore.PublicActive)
	// NodeSuspended: the node waits for signals.
	NodeSuspended = fabrictype.NodeState(enginecore.PublicSuspended)
	// NodeSucceeded: the node has a result. The text is "completed"; the outcome of the node is flow.Succeeded, whose
	// text is "success".
	NodeSucceeded = fabrictype.NodeState(enginecore.PublicCompleted)
	// NodeFailed: an attempt failed and no other one follows.
	NodeFailed = fabrictype.NodeState(enginecore.PublicFailed)
	// NodeCancelled: the node was cancelled, by itself or with its run.
	NodeCancelled = fabrictype.NodeState(enginecore.PublicCancelled)
	// NodeExpired: a timeout of the node or the deadline of the run ended it.
	NodeExpired = fabrictype.NodeState(enginecore.PublicExpired)
	// NodeSkipped: the node did not run because of the outcomes of its upstreams.
	NodeSkipped = fabrictype.NodeState(enginecore.PublicSkipped)
)

// Ended reports whether a node in this state has ended. It may still run again, by a rerun.
func (s fabrictype.NodeState) Ended() bool { return enginecore.PublicState(s).Terminal() }
