package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Lanes returns the states of all lanes, for metrics.
func (s *Service) Lanes(ctx context.Context) ([]fabrictype.Lane, error) { return s.client.Lanes(ctx) }

// ListLanes implements api.ListLanes.
func (s *Service) ListLanes(ctx context.Context, _ *api.Empty) (*fabrictype.Page[fabrictype.Lane], error) {
	lanes, err := s.client.Lanes(ctx)
	if err != nil {
		return nil, err
	}
	return whole(lanes), nil
}

// ListPauses implements api.ListPauses.
func (s *Service) ListPauses(ctx context.Context, _ *api.Empty) (*fabrictype.Page[fabrictype.Pause], error) {
	pauses, err := s.client.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	return whole(pauses), nil
}

// PauseLane implements api.PauseLane.
func (s *Service) PauseLane(ctx context.Context, in *api.LaneReasonInput) (*api.Empty, error) {
	return done(s.as(ctx).Lane(in.Lane).Pause(ctx, in.Body.Reason))
}

// ResumeLane implements api.ResumeLane.
func (s *Service) ResumeLane(ctx context.Context, in *api.LaneInput) (*api.Empty, error) {
	return done(s.as(ctx).Lane(in.Lane).Resume(ctx))
}

// PauseActivity implements api.PauseActivity.
func (s *Service) PauseActivity(ctx context.Context, in *api.ActivityReasonInput) (*api.Empty, error) {
	return done(s.as(ctx).Activity(in.Activity).Pause(ctx, in.Body.Reason))
}

// ResumeActivity implements api.ResumeActivity.
func (s *Service) ResumeActivity(ctx context.Context, in *api.ActivityInput) (*api.Empty, error) {
	return done(s.as(ctx).Activity(in.Activity).Resume(ctx))
}
