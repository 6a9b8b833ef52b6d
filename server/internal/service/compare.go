package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// CompareRuns implements api.CompareRuns.
func (s *Service) CompareRuns(ctx context.Context, in *api.CompareRunsInput) (*api.RunComparison, error) {
	flow := in.Flow
	if in.OtherFlow != "" {
		flow = in.OtherFlow
	}
	if !login.From(ctx).Sees(flow) {
		return nil, runtime.ErrRunNotFound
	}
	d, err := runtime.DiffRuns(ctx, s.run(ctx, in.RunName), s.client.Run(flow, in.OtherRun))
	if err != nil {
		return nil, err
	}
	out := &api.RunComparison{
		A: sideOf(d.A), B: sideOf(d.B), Input: d.Input, Result: d.Result, Graph: d.Graph, Nodes: []api.NodeDiff{},
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		diff := api.NodeDiff{Node: n.Name, A: nodeSideOf(n.A), B: nodeSideOf(n.B), Differs: n.Graph}
		for _, part := range []struct {
			differs bool
			name    string
		}{{n.State, "state"}, {n.Result, "result"}, {n.Reason, "reason"}} {
			if part.differs {
				diff.Differs = append(diff.Differs, part.name)
			}
		}
		out.Nodes = append(out.Nodes, diff)
	}
	return out, nil
}

func sideOf(r runtime.RunSide) api.RunSide {
	return api.RunSide{
		Flow: r.Flow, Run: r.Run, State: string(r.State), Took: api.Duration{Duration: r.Took},
		Input: r.Input, Result: r.Result,
	}
}

func nodeSideOf(n *runtime.NodeSide) *api.NodeSide {
	if n == nil {
		return nil
	}
	return &api.NodeSide{
		State: string(n.State), Attempts: n.Attempts, Took: api.Duration{Duration: n.Took}, Result: n.Result,
		Reason: n.Reason,
	}
}
