package recordstate

import (
	"cmp"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

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
