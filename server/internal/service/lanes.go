package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Lanes returns the states of all lanes, for metrics.
func (s *Service) Lanes(ctx context.Context) ([]runtime.LaneState, error) { return s.client.Lanes(ctx) }

// ListLanes implements api.ListLanes.
func (s *Service) ListLanes(ctx context.Context, _ *api.Empty) (*api.Page[api.Lane], error) {
	lanes, err := s.client.Lanes(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(lanes, func(l runtime.LaneState) api.Lane {
		return api.Lane{
			Name: l.Name, PausedAt: l.PausedSince, PausedBy: l.PausedBy, PauseReason: l.PauseReason,
			Eligible: l.Eligible,
			Delayed:  l.Delayed, Active: l.Active, Suspended: l.Suspended, Oldest: l.Oldest,
			Blocked: api.LaneBlocked{
				Dependencies: l.Blocked.Dependencies, Budget: l.Blocked.Budget, Quota: l.Blocked.Quota,
				Route:    l.Blocked.Route,
				Operator: l.Blocked.Operator,
			},
		}
	}), nil
}

// ListPauses implements api.ListPauses.
func (s *Service) ListPauses(ctx context.Context, _ *api.Empty) (*api.Page[api.Pause], error) {
	pauses, err := s.client.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(pauses, func(p runtime.LanePause) api.Pause {
		return api.Pause{Lane: p.Lane, Activity: p.Activity, Since: p.Since, By: p.By, Reason: p.Reason}
	}), nil
}

// PauseLane implements api.PauseLane.
func (s *Service) PauseLane(ctx context.Context, in *api.LaneReasonInput) (*api.Empty, error) {
	return done(s.as(ctx).PauseLane(ctx, in.Lane, in.Body.Reason))
}

// ResumeLane implements api.ResumeLane.
func (s *Service) ResumeLane(ctx context.Context, in *api.LaneInput) (*api.Empty, error) {
	return done(s.as(ctx).ResumeLane(ctx, in.Lane))
}

// PauseActivity implements api.PauseActivity.
func (s *Service) PauseActivity(ctx context.Context, in *api.ActivityReasonInput) (*api.Empty, error) {
	return done(s.as(ctx).PauseActivity(ctx, in.Activity, in.Body.Reason))
}

// ResumeActivity implements api.ResumeActivity.
func (s *Service) ResumeActivity(ctx context.Context, in *api.ActivityInput) (*api.Empty, error) {
	return done(s.as(ctx).ResumeActivity(ctx, in.Activity))
}
