package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
)

// Describe returns the state of the schedule, with its history.
func (s *ScheduleRef) Describe(ctx context.Context) (*fabrictype.Schedule, error) {
	fail := func(err error) (*fabrictype.Schedule, error) {
		return nil, fmt.Errorf("describe schedule %.140q: %w", s.name, err)
	}
	p, id, err := s.locate(ctx)
	if err != nil {
		return fail(err)
	}
	r, history, err := schedule.Store{Session: s.client.session}.Read(ctx, p, id, schedule.ScheduleHistory)
	if err != nil {
		return fail(err)
	}
	if r.State.Deleting {
		return fail(engine.ErrScheduleNotFound)
	}
	d, err := s.client.describeSchedule(ctx, r, history)
	if err != nil {
		return fail(err)
	}
	return d, nil
}

// Input returns the input of the runs of the schedule, as it was encoded. The field that FireTimeField names has the
// value of the declaration: fires set it anew.
func (s *ScheduleRef) Input(ctx context.Context) (*fabrictype.Value, error) {
	fail := func(err error) (*fabrictype.Value, error) {
		return nil, fmt.Errorf("read input of schedule %.140q: %w", s.name, err)
	}
	p, id, err := s.locate(ctx)
	if err != nil {
		return fail(err)
	}
	content, err := schedule.Store{Session: s.client.session}.ReadPresent(ctx, p, id)
	if err != nil {
		return fail(err)
	}
	return describe.Value(describe.Codec(content.Flow.Graph.Codec), len(content.Input), content.Input), nil
}

// Schedules yields the schedules of the client's namespace without their histories, in no particular order. It reads
// them in pages; a schedule that is created or deleted during the iteration may be included or not. An error ends the
// iteration.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[*fabrictype.Schedule, error] {
	return func(yield func(*fabrictype.Schedule, error) bool) {
		if _, err := library(ctx, c, "schedules"); err != nil {
			yield(nil, fmt.Errorf("list schedules: %w", err))
			return
		}
		for _, p := range c.session.Partitions() {
			goOn, err := c.yieldSchedules(ctx, p, yield)
			if err != nil {
				yield(nil, fmt.Errorf("list schedules: %w", err))
				return
			}
			if !goOn {
				return
			}
		}
	}
}

// yieldSchedules yields the schedules of a partition.
func (c *Client) yieldSchedules(
	ctx context.Context, p keyspace.Partition, yield func(*fabrictype.Schedule, error) bool,
) (bool, error) {
	call := enginerpc.ListSchedulesCall{Partition: p}
	for {
		reply, err := c.session.Core.ListSchedules(ctx, call)
		if err != nil {
			return false, err
		}
		for _, stored := range reply.Schedules {
			r, err := schedule.ReadRecord(p, reply.Now, stored)
			if errors.Is(err, schedule.ErrScheduleVersion) {
				c.session.Logger.LogAttrs(ctx, slog.LevelWarn,
					"flowfabric: the client omits a schedule that it cannot read from a list",
					observe.EventScheduleFailed.Attr(),
					slog.Any("error", err))
				continue
			}
			if err != nil {
				return false, err
			}
			if r.State.Deleting || keyspace.Namespace(r.Spec.Namespace) != c.session.Namespace {
				continue
			}
			d, err := c.describeSchedule(ctx, r, nil)
			if err != nil {
				return false, err
			}
			if !yield(d, nil) {
				return false, nil
			}
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return true, nil
		}
	}
}

// parseFire reads an entry of the history.
func parseFire(text string) (fabrictype.ScheduleFire, error) {
	entry, err := schedule.ReadFire(text)
	if err != nil {
		return fabrictype.ScheduleFire{}, err
	}
	return fabrictype.ScheduleFire{
		At: schedule.UnixTime(entry.At), Until: schedule.UnixTime(max(entry.At, entry.Until)),
		Count: max(1, entry.Count), DoneAt: schedule.UnixTime(entry.Done),
		Outcome: entry.Outcome, Flow: entry.Flow, Run: entry.Run, Reason: entry.Reason,
		Triggered: entry.Manual, Backfilled: entry.Backfill,
	}, nil
}

func (c *Client) describeSchedule(
	ctx context.Context, r *schedule.Record, history []string,
) (*fabrictype.Schedule, error) {
	spec, state := &r.Spec, &r.State
	d := &fabrictype.Schedule{
		Name: spec.Name, Flow: spec.Flow, Cron: spec.Cron, TimeZone: spec.Zone,
		Every:      fabrictype.Duration{Duration: time.Duration(spec.EveryMS) * time.Millisecond},
		StartingAt: schedule.UnixTime(spec.StartMS), EndingAt: schedule.UnixTime(spec.EndMS),
		Jitter:  fabrictype.Duration{Duration: time.Duration(spec.JitterMS) * time.Millisecond},
		CatchUp: fabrictype.Duration{Duration: spec.CatchUp()}, Overlap: spec.Overlap, QueueLimit: spec.QueueLimit,
		Tags:      spec.Tags,
		CreatedAt: schedule.UnixTime(state.CreatedAt), UpdatedAt: schedule.UnixTime(state.UpdatedAt),
		PausedAt:    schedule.UnixTime(state.PausedAt),
		PauseReason: state.PauseReason, NextFire: r.NextDue(),
		LastFire: schedule.UnixTime(state.LastFire),
		Waiting:  len(state.Waiting), Started: state.Started, Skipped: state.Skipped, Missed: state.Missed,
		Failed: state.Failed, Backfills: backfillsOf(state.Backfills),
	}
	for _, text := range history {
		fire, err := parseFire(text)
		if err != nil {
			return nil, err
		}
		d.History = append(d.History, fire)
	}
	if state.Last == nil {
		return d, nil
	}
	d.LastRun, d.LastRunFlow = state.Last.Run, state.Last.Flow
	id, p, err := schedule.Store{Session: c.session}.LocateLastRun(r)
	if err != nil {
		return nil, err
	}
	reply, err := c.session.Backend.FlowResult(ctx, enginerpc.FlowResultCall{Partition: p, FlowID: id})
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		// The run was purged.
	case err != nil:
		return nil, err
	default:
		d.LastRunState = recordstate.RunState(reply.State, reply.Outcome)
	}
	return d, nil
}
