package explain

import (
	"slices"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// urgency returns the reasons of waits, those that need a person first. Reasons that it does not have come last.
func urgency() []string {
	return []string{
		waitreason.Escalated, waitreason.Signals, waitreason.Unserved, waitreason.Unregistered, waitreason.Capability,
		waitreason.KeeperOverdue, waitreason.WorkerLost,
		waitreason.Budget, waitreason.Limit, waitreason.RateWindow, waitreason.Operator, waitreason.RunPaused,
		waitreason.LanePaused, waitreason.ActivityPaused, waitreason.Retry,
	}
}

// Ranks of nodes whose reason is not among the urgent ones.
const (
	ofUrgent, ofActive, ofChildRun, ofOthers = 100, 50, 49, 10
)

// Attention returns how urgently a node needs a person: 0 for a node that has ended or waits for others.
func Attention(n *fabrictype.Node) int {
	if i := slices.Index(urgency(), n.Waiting.Reason); i >= 0 {
		return ofUrgent - i
	}
	switch {
	case n.State == fabrictype.NodeActive:
		return ofActive
	case n.Waiting.Reason == waitreason.ChildRun:
		return ofChildRun
	case n.Waiting.Reason == waitreason.Upstreams, n.Waiting.Reason == waitreason.Join, n.Waiting.Reason == "":
		return 0
	default:
		return ofOthers
	}
}

// Worst returns the node that needs attention most; nil when none does.
func Worst(nodes []fabrictype.Node) *fabrictype.Node {
	var worst *fabrictype.Node
	best := 0
	for i := range nodes {
		if rank := Attention(&nodes[i]); rank > best {
			best, worst = rank, &nodes[i]
		}
	}
	return worst
}

// NeedsOperator reports whether a wait for a reason lasts until a program or an operator acts.
func NeedsOperator(reason string) bool {
	switch reason {
	case waitreason.Unserved, waitreason.Unregistered, waitreason.Capability, waitreason.KeeperOverdue,
		waitreason.Budget, waitreason.Operator, waitreason.RunPaused, waitreason.LanePaused, waitreason.ActivityPaused:
		return true
	}
	return false
}
