package runtime

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// The outcome of a run says more than its state, and a word that nobody knows yet is passed through.
func TestRunStateOfStoredWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, outcome string
		want           RunState
	}{
		{"open", "", RunRunning},
		{"completed", "success", RunSucceeded},
		{"completed", "", RunSucceeded},
		{"failed", "failed", RunFailed},
		{"failed", "expired", RunExpired},
		{"cancelled", "cancelled", RunCancelled},
		{"cancelled", "", RunCancelled},
		{"completed", "superseded", "superseded"},
		{"frozen", "", "frozen"},
		{"", "", ""},
	} {
		require.Equal(t, c.want, runState(c.state, c.outcome), "%s %s", c.state, c.outcome)
	}
	for state, stored := range storedStates {
		require.Equal(t, state, runState("", stored))
	}
}

// Nodes have the public states of the engine, all of them.
func TestNodeStates(t *testing.T) {
	t.Parallel()
	ended := map[NodeState]bool{
		NodeWaiting: false, NodeDelayed: false, NodeRateLimited: false, NodeWaitingChildren: false, NodeActive: false, NodeSuspended: false,
		NodeSucceeded: true, NodeFailed: true, NodeCancelled: true, NodeExpired: true, NodeSkipped: true,
	}
	require.Len(t, ended, len(enginecore.PublicStates()))
	for _, state := range enginecore.PublicStates() {
		want, known := ended[NodeState(state)]
		require.True(t, known, state)
		require.Equal(t, want, NodeState(state).Ended(), state)
	}
}

// The text of a scope is what the engine keeps of a rerun.
func TestRerunScopeText(t *testing.T) {
	t.Parallel()
	require.Equal(t, submit.RerunScope{Mode: "failed"}, RerunFailed().nodes())
	require.Equal(t, submit.RerunScope{Mode: "all"}, RerunAll().nodes())
	require.Equal(t, submit.RerunScope{Mode: "from n", Node: "n"}, RerunScope("from n").nodes())
	require.Equal(t, RerunScope("from n"), RerunFrom("n"))
}
