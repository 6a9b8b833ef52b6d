package service

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/explain"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// explainAtOnce is how many runs are described at a time, and explainNodes how many nodes of each are read.
const (
	explainAtOnce = 8
	explainNodes  = describe.MaxPage
)

// ExplainRuns implements httpapi.ExplainRuns. Runs that do not exist, or that the caller may not see, are left out.
func (s *Service) ExplainRuns(ctx context.Context, in *httpapi.ExplainRunsInput) (*fabrictype.Page[api.RunNow], error) {
	found := make([]*api.RunNow, len(in.Body.Runs))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(explainAtOnce)
	for i, name := range in.Body.Runs {
		if !login.From(ctx).Sees(name.Flow) {
			continue
		}
		group.Go(func() error {
			d, err := s.describe(inner, s.client.Run(name.Flow, name.Run), runtime.DescribeOptions{Nodes: explainNodes})
			if errors.Is(err, engine.ErrRunNotFound) {
				return nil
			}
			if err == nil {
				found[i] = nowOf(d)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := &fabrictype.Page[api.RunNow]{Items: []api.RunNow{}}
	for _, now := range found {
		if now != nil {
			out.Items = append(out.Items, *now)
		}
	}
	return out, nil
}

// nowOf picks the node of a run that needs attention most.
func nowOf(d *runtime.RunDescription) *api.RunNow {
	out := &api.RunNow{
		Flow: d.Flow, Run: d.Run, State: string(d.State), BeganAt: d.BeganAt, ClosedAt: d.ClosedAt,
		PausedAt: d.PausedAt, Nodes: countsOf(d),
	}
	if d.OpenNodes == 0 && d.FailedNode != "" {
		out.Node, out.Message = d.FailedNode, d.Reason
		return out
	}
	best := 0
	for i := range d.Nodes {
		n := &d.Nodes[i]
		place := explain.Attention(n)
		if n.Waiting.Reason != "" {
			if out.Waits == nil {
				out.Waits = map[string]int{}
			}
			out.Waits[string(n.Waiting.Reason)]++
		}
		if place > best {
			best = place
			out.Node, out.NodeState, out.Message = n.Name, string(n.State), n.Message
			out.Waiting, out.Wait = nil, nil
			if n.Waiting.Reason != "" {
				waiting := n.Waiting
				out.Waiting = &waiting
			}
			if len(n.Waits) > 0 {
				out.Wait = &n.Waits[0]
			}
		}
	}
	return out
}

// countsOf counts nodes by outcome. For a run with more nodes than are read, only the counts of all and of open nodes
// are known.
func countsOf(d *runtime.RunDescription) fabrictype.NodeCounts {
	counts := fabrictype.NodeCounts{All: len(d.Nodes), Open: d.OpenNodes}
	if graph := flowgraph.View(d.Internal()); graph != nil {
		counts.All = len(graph.Nodes)
	}
	for i := range d.Nodes {
		switch d.Nodes[i].State {
		case fabrictype.NodeFailed:
			counts.Failed++
		case fabrictype.NodeCancelled:
			counts.Cancelled++
		case fabrictype.NodeExpired:
			counts.Expired++
		case fabrictype.NodeSkipped:
			counts.Skipped++
		}
	}
	return counts
}
