package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime/catalogue"
)

// ListFlows implements api.ListFlows.
func (s *Service) ListFlows(ctx context.Context, _ *api.Empty) (*api.Page[catalogue.Flow], error) {
	flows, err := s.client.Flows(ctx)
	if err != nil {
		return nil, err
	}
	flows = visible(ctx, flows, func(f catalogue.Flow) string { return f.Name })
	return pageOf(flows, func(f catalogue.Flow) catalogue.Flow { return f }), nil
}

// GetFlow implements api.GetFlow.
func (s *Service) GetFlow(ctx context.Context, in *api.FlowInput) (*catalogue.Description, error) {
	return s.client.DescribeFlow(ctx, in.Flow)
}

// GetFlowGraph implements api.GetFlowGraph.
func (s *Service) GetFlowGraph(ctx context.Context, in *api.GetFlowGraphInput) (*api.Drawing, error) {
	d, err := s.client.DescribeFlow(ctx, in.Flow)
	if err != nil {
		return nil, err
	}
	return drawing(in.Format, d), nil
}

// WithdrawFlow implements api.WithdrawFlow.
func (s *Service) WithdrawFlow(ctx context.Context, in *api.FlowInput) (*api.Empty, error) {
	return done(s.as(ctx).Withdraw(ctx, in.Flow))
}
