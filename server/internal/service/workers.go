package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// ListWorkers implements api.ListWorkers.
func (s *Service) ListWorkers(ctx context.Context, _ *api.Empty) (*api.Page[api.Worker], error) {
	workers, err := s.client.Workers(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(workers, func(w fabrictype.Worker) api.Worker {
		return api.Worker{
			Instance: string(w.Instance), Name: w.Name, State: w.State, Host: w.Host, PID: w.PID, Build: w.Build,
			Lanes: w.Lanes, Activities: w.Activities, Capabilities: w.Capabilities, Slots: w.Slots, Used: w.Used,
			Started: w.Started,
			Since:   w.Since, ReportedAt: w.ReportedAt, DrainRequestedAt: w.DrainRequestedAt,
			DrainRequestedBy: w.DrainRequestedBy,
		}
	}), nil
}

// DrainWorker implements api.DrainWorker.
func (s *Service) DrainWorker(ctx context.Context, in *api.WorkerInput) (*api.Empty, error) {
	return done(s.as(ctx).DrainWorker(ctx, enginecore.WorkerInstanceID(in.Worker)))
}
