package service

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
	"github.com/flowfabric/flowfabric-go/runtime"
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

// ListSchedules implements api.ListSchedules.
func (s *Service) ListSchedules(ctx context.Context, _ *api.Empty) (*api.Page[api.Schedule], error) {
	return collect(s.client.Schedules(ctx), scheduleOf)
}

// GetSchedule implements api.GetSchedule.
func (s *Service) GetSchedule(ctx context.Context, in *api.ScheduleInput) (*api.Schedule, error) {
	d, err := s.client.DescribeSchedule(ctx, in.Schedule)
	if err != nil {
		return nil, err
	}
	out := scheduleOf(d)
	out.Upcoming = upcoming(d)
	return &out, nil
}

// upcomingFires is how many times of a schedule are told in advance.
const upcomingFires = 10

// upcoming returns the next times of a schedule, none for one that does not fire any more.
func upcoming(d *runtime.ScheduleDescription) []time.Time {
	table, err := timetable.New(timetable.Spec{
		Cron: d.Cron, Zone: d.TimeZone, Every: d.Every, Start: d.StartingAt, End: d.EndingAt,
	})
	if err != nil || d.NextFire.IsZero() {
		return nil
	}
	var times []time.Time
	for at := time.Now(); len(times) < upcomingFires; {
		if at = table.Next(at); at.IsZero() {
			break
		}
		times = append(times, at)
	}
	return times
}

func scheduleOf(d *runtime.ScheduleDescription) api.Schedule {
	out := api.Schedule{
		Name: d.Name, Flow: d.Flow, Cron: d.Cron, TimeZone: d.TimeZone, Every: api.Duration{Duration: d.Every},
		StartingAt: d.StartingAt,
		EndingAt:   d.EndingAt, Jitter: api.Duration{Duration: d.Jitter}, CatchUp: api.Duration{Duration: d.CatchUp},
		Overlap:    string(d.Overlap),
		QueueLimit: d.QueueLimit, Tags: d.Tags, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, PausedAt: d.PausedAt,
		PauseReason: d.PauseReason, NextFire: d.NextFire, LastFire: d.LastFire, LastRun: d.LastRun,
		LastRunFlow: d.LastRunFlow, LastRunState: string(d.LastRunState), Waiting: d.Waiting, Started: d.Started,
		Skipped: d.Skipped, Missed: d.Missed, Failed: d.Failed,
	}
	for _, f := range d.History {
		out.History = append(out.History, api.Fire{
			At: f.At, Until: f.Until, Count: f.Count, DoneAt: f.DoneAt, Outcome: string(f.Outcome), Flow: f.Flow,
			Run:    f.Run,
			Reason: f.Reason, Triggered: f.Triggered,
		})
	}
	return out
}

// PauseSchedule implements api.PauseSchedule.
func (s *Service) PauseSchedule(ctx context.Context, in *api.ScheduleReasonInput) (*api.Empty, error) {
	return done(s.as(ctx).PauseSchedule(ctx, in.Schedule, in.Body.Reason))
}

// ResumeSchedule implements api.ResumeSchedule.
func (s *Service) ResumeSchedule(ctx context.Context, in *api.ScheduleInput) (*api.Empty, error) {
	return done(s.as(ctx).ResumeSchedule(ctx, in.Schedule))
}

// TriggerSchedule implements api.TriggerSchedule.
func (s *Service) TriggerSchedule(ctx context.Context, in *api.ScheduleInput) (*api.StartedRun, error) {
	d, err := s.client.DescribeSchedule(ctx, in.Schedule)
	if err != nil {
		return nil, err
	}
	run, err := s.as(ctx).TriggerSchedule(ctx, in.Schedule)
	if err != nil {
		return nil, err
	}
	return &api.StartedRun{Flow: d.Flow, Run: run}, nil
}

// DeleteSchedule implements api.DeleteSchedule.
func (s *Service) DeleteSchedule(ctx context.Context, in *api.ScheduleInput) (*api.Empty, error) {
	return done(s.as(ctx).DeleteSchedule(ctx, in.Schedule))
}

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

// graceOf returns the grace of a rotation, a day unless the request says otherwise.
func graceOf(d api.Duration) time.Duration {
	if d.Duration == 0 {
		return 24 * time.Hour
	}
	return d.Duration
}
