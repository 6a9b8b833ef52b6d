package runtime

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/flow/layout"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/describe"
	"github.com/flowfabric/flowfabric-go/runtime/why"
)

// SVG returns the drawing of flow.Definition.SVG with the states of the nodes; empty when the run stores no graph.
// Nodes on other pages than the described one are drawn as not started.
func (d *RunDescription) SVG(opts ...layout.Option) string {
	return d.drawn(func(g *flowgraph.Graph) string { return g.SVG(d.nodeStates(), opts...) })
}

// Layout returns where the nodes and edges of the drawing are, as flow.Definition.Layout does; nil when the run stores
// no graph. It does not depend on the states.
func (d *RunDescription) Layout(opts ...layout.Option) *layout.Layout {
	if d == nil || d.graph == nil {
		return nil
	}
	l, err := d.graph.Layout(opts...)
	if err != nil {
		return nil
	}
	return l
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
