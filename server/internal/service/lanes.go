package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// Lanes returns the states of all lanes, for metrics.
func (s *Service) Lanes(ctx context.Context) ([]fabrictype.Lane, error) { return s.client.Lanes(ctx) }

// ListLanes implements httpapi.ListLanes.
func (s *Service) ListLanes(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[fabrictype.Lane], error) {
	lanes, err := s.client.Lanes(ctx)
	if err != nil {
		return nil, err
	}
	return whole(lanes), nil
}

// ListPauses implements httpapi.ListPauses.
func (s *Service) ListPauses(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[fabrictype.Pause], error) {
	pauses, err := s.client.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	return whole(pauses), nil
}

// PauseLane implements httpapi.PauseLane.
func (s *Service) PauseLane(ctx context.Context, in *httpapi.LaneReasonInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Lane(in.Lane).Pause(ctx, in.Body.Reason))
}

// ResumeLane implements httpapi.ResumeLane.
func (s *Service) ResumeLane(ctx context.Context, in *httpapi.LaneInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Lane(in.Lane).Resume(ctx))
}

// PauseActivity implements httpapi.PauseActivity.
func (s *Service) PauseActivity(ctx context.Context, in *httpapi.ActivityReasonInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Activity(in.Activity).Pause(ctx, in.Body.Reason))
}

// ResumeActivity implements httpapi.ResumeActivity.
func (s *Service) ResumeActivity(ctx context.Context, in *httpapi.ActivityInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Activity(in.Activity).Resume(ctx))
}

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
