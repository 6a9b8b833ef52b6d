package recordstate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// The outcome of a run is more specific than its state, and an unknown word is passed through.
func TestRunStateOfStoredWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, outcome string
		want           fabrictype.RunState
	}{
		{"open", "", fabrictype.RunRunning},
		{"completed", "success", fabrictype.RunSucceeded},
		{"completed", "", fabrictype.RunSucceeded},
		{"failed", "failed", fabrictype.RunFailed},
		{"failed", "expired", fabrictype.RunExpired},
		{"cancelled", "cancelled", fabrictype.RunCancelled},
		{"cancelled", "", fabrictype.RunCancelled},
		{"completed", "superseded", "superseded"},
		{"frozen", "", "frozen"},
		{"", "", ""},
	} {
		require.Equal(t, c.want, RunState(c.state, c.outcome), "%s %s", c.state, c.outcome)
	}
	for state, stored := range storedRunStates {
		require.Equal(t, state, RunState("", stored))
	}
}

// Nodes have the public states of the engine, all of them.
func TestNodeStates(t *testing.T) {
	t.Parallel()
	ended := map[fabrictype.NodeState]bool{
		fabrictype.NodeWaiting: false, fabrictype.NodeDelayed: false, fabrictype.NodeRateLimited: false, fabrictype.NodeWaitingChildren: false, fabrictype.NodeActive: false, fabrictype.NodeSuspended: false,
		fabrictype.NodeSucceeded: true, fabrictype.NodeFailed: true, fabrictype.NodeCancelled: true, fabrictype.NodeExpired: true, fabrictype.NodeSkipped: true,
	}
	require.Len(t, ended, len(NodeStates()))
	for _, state := range NodeStates() {
		want, known := ended[fabrictype.NodeState(state)]
		require.True(t, known, state)
		require.Equal(t, want, fabrictype.NodeState(state).Ended(), state)
	}
}
