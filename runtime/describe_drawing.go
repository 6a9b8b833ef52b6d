package runtime

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/layout"
	"github.com/flowfabric/flowfabric-go/runtime/describe"
	"github.com/flowfabric/flowfabric-go/runtime/why"
)

// SVG returns the drawing of flow.Definition.SVG with the states of the nodes; empty when the run stores no graph.
// Nodes on other pages than the described one are drawn as not started.
func (d *RunDescription) SVG(drawing flow.Drawing) string {
	return d.drawn(func(g *flowgraph.Graph) string { return g.SVG(d.nodeStates(), flowgraph.Drawing(drawing)) })
}

// nodeStates returns the states of the nodes as they are drawn.
func (d *RunDescription) nodeStates() map[string]layout.NodeState {
	states := make(map[string]layout.NodeState, len(d.Nodes))
	for i := range d.Nodes {
		n := &d.Nodes[i]
		s := layout.NodeState{State: n.drawnState()}
		if c := n.Child; c != nil && c.Total > 0 {
			s.Progress = layout.Progress{
				Succeeded: c.Succeeded, Failed: c.Failed + c.Expired, Running: c.Open, Total: c.Total,
			}
			s.Text = fmt.Sprintf("%d of %d ended", c.Total-c.Open, c.Total)
			if n.Kind == describe.Map {
				s.Text = fmt.Sprintf("%d of %d items", c.Total-c.Open, c.Total)
			}
		}
		if s.State == layout.Retrying {
			s.Text = fmt.Sprintf("retrying, %d failed", n.Attempts)
		}
		states[n.Name] = s
	}
	return states
}

// drawnState is the state of a node in a drawing.
func (n *NodeDescription) drawnState() layout.State {
	switch n.State {
	case NodeActive:
		return layout.Running
	case NodeSucceeded:
		return layout.Succeeded
	case NodeFailed:
		return layout.Failed
	case NodeCancelled:
		return layout.Cancelled
	case NodeExpired:
		return layout.Expired
	case NodeSkipped:
		return layout.Skipped
	}
	switch n.Waiting.Reason {
	case why.Upstreams, why.Join, why.Settling, why.Submission:
		return layout.NotStarted
	case why.ChildRun:
		return layout.Running
	case why.Signals, why.Escalated:
		return layout.WaitingForPerson
	case why.Unserved, why.Unregistered, why.Capability:
		return layout.NoWorker
	case why.LanePaused, why.ActivityPaused, why.RunPaused:
		return layout.Paused
	case why.Operator, why.Limit, why.RateWindow, why.Budget:
		return layout.Blocked
	case why.Timer, why.Delay, why.Start:
		return layout.Delayed
	case why.Retry:
		return layout.Retrying
	}
	switch n.State {
	case NodeDelayed:
		return layout.Delayed
	case NodeRateLimited:
		return layout.Blocked
	case NodeSuspended:
		return layout.WaitingForPerson
	case NodeWaitingChildren:
		return layout.NotStarted
	}
	return layout.Queued
}
