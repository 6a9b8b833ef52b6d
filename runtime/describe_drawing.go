package runtime

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/layout"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
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
		s := layout.NodeState{State: drawnState(n)}
		if c := n.Child; c != nil && c.Total > 0 {
			s.Progress = layout.Progress{
				Succeeded: c.Succeeded, Failed: c.Failed + c.Expired, Running: c.Open, Total: c.Total,
			}
			s.Text = fmt.Sprintf("%d of %d ended", c.Total-c.Open, c.Total)
			if n.Kind == fabrictype.KindMap {
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
func drawnState(n *fabrictype.Node) layout.State {
	switch n.State {
	case fabrictype.NodeActive:
		return layout.Running
	case fabrictype.NodeSucceeded:
		return layout.Succeeded
	case fabrictype.NodeFailed:
		return layout.Failed
	case fabrictype.NodeCancelled:
		return layout.Cancelled
	case fabrictype.NodeExpired:
		return layout.Expired
	case fabrictype.NodeSkipped:
		return layout.Skipped
	}
	switch n.Waiting.Reason {
	case waitreason.Upstreams, waitreason.Join, waitreason.Settling, waitreason.Submission:
		return layout.NotStarted
	case waitreason.ChildRun:
		return layout.Running
	case waitreason.Signals, waitreason.Escalated:
		return layout.WaitingForPerson
	case waitreason.Unserved, waitreason.Unregistered, waitreason.Capability:
		return layout.NoWorker
	case waitreason.LanePaused, waitreason.ActivityPaused, waitreason.RunPaused:
		return layout.Paused
	case waitreason.Operator, waitreason.Limit, waitreason.RateWindow, waitreason.Budget:
		return layout.Blocked
	case waitreason.Timer, waitreason.Delay, waitreason.Start:
		return layout.Delayed
	case waitreason.Retry:
		return layout.Retrying
	}
	switch n.State {
	case fabrictype.NodeDelayed:
		return layout.Delayed
	case fabrictype.NodeRateLimited:
		return layout.Blocked
	case fabrictype.NodeSuspended:
		return layout.WaitingForPerson
	case fabrictype.NodeWaitingChildren:
		return layout.NotStarted
	}
	return layout.Queued
}
