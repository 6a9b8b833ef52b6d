package flow

import (
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Finally lets the node start when all other nodes of the run have ended, however the run ends: also after it was
// cancelled or has exceeded its deadline, which ends the other nodes. Use it to release resources that the run holds.
// The result of the run comes after these nodes, and if one of them fails, a run that would have succeeded fails.
//
//	flow.Node(f, "release", release, f.Input(), flow.Finally(time.Minute))
//
// within limits the time from the end of the other nodes to the end of this node, retries included; 0 sets no limit. Of
// several such nodes of a flow, which run at the same time, the longest limit counts for all, and none if one has none.
// After it they expire, which is a failure as any. The deadline of the flow does not count for them.
//
// The node runs an activity and takes no results; its input can be the flow's, constants, and FailureOf any other nodes
// without Finally. It has no other upstreams, and no node can wait for it.
func Finally(within time.Duration) NodeOption {
	return nodeOption(func(b *builder, n *nodeSettings) {
		n.spec.Finally = &flowgraph.Finally{Within: activityspec.Milliseconds(within)}
	})
}

// settleFinally gives the nodes with Finally their edges: all other nodes are known only when the flow is built.
func (b *builder) settleFinally() {
	if !b.graph.HasFinally() {
		return
	}
	b.graph.Nodes = slices.Clone(b.graph.Nodes)
	b.graph.SettleFinally()
}
