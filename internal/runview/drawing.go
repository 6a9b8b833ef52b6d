package runview

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/layout"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// DrawnStates returns the states of nodes as they are drawn.
func DrawnStates(nodes []fabrictype.Node) map[string]layout.NodeState {
	states := make(map[string]layout.NodeState, len(nodes))
	for i := range nodes {
		n := &nodes[i]
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
