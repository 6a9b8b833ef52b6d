package service

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// ListSchedules implements httpapi.ListSchedules.
func (s *Service) ListSchedules(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[fabrictype.Schedule], error) {
	return collect(s.client.Schedules(ctx), func(d *fabrictype.Schedule) fabrictype.Schedule { return *d })
}

// GetSchedule implements httpapi.GetSchedule.
func (s *Service) GetSchedule(ctx context.Context, in *httpapi.GetScheduleInput) (*fabrictype.Schedule, error) {
	if in.Values {
		if err := login.Need(ctx, api.ReadPayloads); err != nil {
			return nil, err
		}
	}
	d, err := s.client.Schedule(in.Schedule).Describe(ctx)
	if err != nil {
		return nil, err
	}
	if in.Values {
		if d.Input, err = s.client.Schedule(in.Schedule).Input(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// ListFires implements httpapi.ListFires.
func (s *Service) ListFires(ctx context.Context, in *httpapi.ListFiresInput) (*fabrictype.Page[time.Time], error) {
	if in.Cron != "" || in.Every.Duration != 0 {
		return s.previewFires(in)
	}
	times, err := s.client.Schedule(in.Schedule).Next(ctx, in.Limit)
	if err != nil {
		return nil, err
	}
	return pageOf(times, time.Time.UTC), nil
}

// previewFires lists the next times of a timing that no schedule has yet, by the clock of the server.
func (s *Service) previewFires(in *httpapi.ListFiresInput) (*fabrictype.Page[time.Time], error) {
	table, err := timetable.New(timetable.Spec{
		Cron: in.Cron, Zone: in.TimeZone, Every: in.Every.Duration, Start: in.StartingAt, End: in.EndingAt,
	})
	if err != nil {
		return nil, faultAt("", "%v", err)
	}
	out := &fabrictype.Page[time.Time]{Items: []time.Time{}}
	for at := table.Next(s.now()); !at.IsZero() && len(out.Items) < in.Limit; at = table.Next(at) {
		out.Items = append(out.Items, at)
	}
	return out, nil
}

// SetSchedule implements httpapi.SetSchedule.
func (s *Service) SetSchedule(ctx context.Context, in *httpapi.SetScheduleInput) (*fabrictype.Schedule, error) {
	b := &in.Body
	config := runtime.ScheduleConfig{
		CatchUp: b.CatchUp.Duration, Overlap: fabrictype.OverlapPolicy(b.Overlap), QueueLimit: b.QueueLimit,
		StartPaused: b.StartPaused, PauseReason: b.PauseReason, FireTimeField: b.FireTimeField, Tags: b.Tags,
	}
	setTiming(&config, b.Timing)
	d, err := s.as(ctx).Flow(b.Flow).Schedule(ctx, in.Schedule, b.Input, config)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func setTiming(config *runtime.ScheduleConfig, t api.Timing) {
	config.Cron, config.TimeZone, config.Every = t.Cron, t.TimeZone, t.Every.Duration
	config.StartingAt, config.EndingAt, config.Jitter = t.StartingAt, t.EndingAt, t.Jitter.Duration
}

// EditSchedule implements httpapi.EditSchedule.
func (s *Service) EditSchedule(ctx context.Context, in *httpapi.EditScheduleInput) (*fabrictype.Schedule, error) {
	d, err := s.as(ctx).Schedule(in.Schedule).Edit(ctx, func(e *runtime.ScheduleEdit) error {
		editSchedule(e, in)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// editSchedule changes the fields that the input has.
func editSchedule(e *runtime.ScheduleEdit, in *httpapi.EditScheduleInput) {
	b := &in.Body
	if b.Timing != nil {
		setTiming(&e.Config, *b.Timing)
	}
	if len(b.Input) > 0 {
		e.Input = b.Input
	}
	if b.CatchUp != nil {
		e.Config.CatchUp = b.CatchUp.Duration
	}
	if b.Overlap != nil {
		e.Config.Overlap = fabrictype.OverlapPolicy(*b.Overlap)
		if e.Config.Overlap != fabrictype.OverlapQueue {
			e.Config.QueueLimit = 0
		}
	}
	if b.QueueLimit != nil {
		e.Config.QueueLimit = *b.QueueLimit
	}
	if b.FireTimeField != nil {
		e.Config.FireTimeField = *b.FireTimeField
	}
	if b.Tags != nil {
		e.Config.Tags = b.Tags
	}
}

// BackfillSchedule implements httpapi.BackfillSchedule.
func (s *Service) BackfillSchedule(
	ctx context.Context, in *httpapi.BackfillScheduleInput,
) (*httpapi.Backfilled, error) {
	times, err := s.as(ctx).Schedule(in.Schedule).Backfill(ctx, fabrictype.Backfill{
		From: in.Body.From, Until: in.Body.Until, Overlap: fabrictype.OverlapPolicy(in.Body.Overlap),
	}, once(ctx)...)
	if err != nil {
		return nil, err
	}
	return &httpapi.Backfilled{Times: times}, nil
}

// PauseSchedule implements httpapi.PauseSchedule.
func (s *Service) PauseSchedule(ctx context.Context, in *httpapi.ScheduleReasonInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Schedule(in.Schedule).Pause(ctx, in.Body.Reason))
}

// ResumeSchedule implements httpapi.ResumeSchedule.
func (s *Service) ResumeSchedule(ctx context.Context, in *httpapi.ScheduleInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Schedule(in.Schedule).Resume(ctx))
}

// TriggerSchedule implements httpapi.TriggerSchedule.
func (s *Service) TriggerSchedule(ctx context.Context, in *httpapi.ScheduleInput) (*api.StartedRun, error) {
	d, err := s.client.Schedule(in.Schedule).Describe(ctx)
	if err != nil {
		return nil, err
	}
	run, err := s.as(ctx).Schedule(in.Schedule).Trigger(ctx, once(ctx)...)
	if err != nil {
		return nil, err
	}
	return &api.StartedRun{Flow: d.Flow, Run: run}, nil
}

// DeleteSchedule implements httpapi.DeleteSchedule.
func (s *Service) DeleteSchedule(ctx context.Context, in *httpapi.ScheduleInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Schedule(in.Schedule).Delete(ctx))
}
