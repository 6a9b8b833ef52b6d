package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// ListWorkers implements api.ListWorkers.
func (s *Service) ListWorkers(ctx context.Context, _ *api.Empty) (*fabrictype.Page[fabrictype.Worker], error) {
	workers, err := s.client.Workers(ctx)
	if err != nil {
		return nil, err
	}
	return whole(workers), nil
}

// DrainWorker implements api.DrainWorker.
func (s *Service) DrainWorker(ctx context.Context, in *api.WorkerInput) (*api.Empty, error) {
	return done(s.as(ctx).DrainWorker(ctx, in.Worker))
}
