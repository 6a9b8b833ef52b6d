package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// ListWorkers implements httpapi.ListWorkers.
func (s *Service) ListWorkers(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[fabrictype.Worker], error) {
	workers, err := s.client.Workers(ctx)
	if err != nil {
		return nil, err
	}
	return whole(workers), nil
}

// DrainWorker implements httpapi.DrainWorker.
func (s *Service) DrainWorker(ctx context.Context, in *httpapi.WorkerInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).DrainWorker(ctx, in.Worker))
}
