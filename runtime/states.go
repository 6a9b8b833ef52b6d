package runtime

import (
	"cmp"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// storedStates are the engine's words for states, as its lists take them.
var storedStates = map[fabrictype.RunState]string{
	fabrictype.RunRunning: "open", fabrictype.RunSucceeded: "success", fabrictype.RunFailed: "failed",
	fabrictype.RunCancelled: "cancelled", fabrictype.RunExpired: "expired",
}

// runState reads the state and the outcome of a run as the engine has them. The outcome is more specific; it is empty
// while the run is open.
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
