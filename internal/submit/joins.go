package submit

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// compileJoin encodes the join of a node: its policy, the treatment of upstreams that it does not need, and how many it
// needs. It is empty for a node that waits for all upstreams.
func compileJoin(n *flowgraph.Node) string {
	if n.Join.Policy == flowgraph.JoinAll {
		return ""
	}
	needed := int64(n.Join.Needed)
	if n.Finally != nil {
		needed = n.Finally.Within.Milliseconds()
	}
	return fmt.Sprintf("%s %s %d", n.Join.Policy, onSatisfied(n), needed)
}

func onSatisfied(n *flowgraph.Node) string {
	if n.Join.LetRun {
		return "let_run"
	}
	return "cancel_remaining"
}
