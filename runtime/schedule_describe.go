package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/schedule"
)

// ScheduleDescription is a schedule at one moment. Times are those of the engine's clock.
type ScheduleDescription struct {
	Name, Flow string
	// Cron and TimeZone, or Every, and the fields below are those of ScheduleConfig, with the defaults in place.
	Cron, TimeZone string
	Every          time.Duration
	// StartingAt and EndingAt are zero without such a bound.
	StartingAt, EndingAt time.Time
	Jitter, CatchUp      time.Duration
	Overlap              OverlapPolicy
	// QueueLimit is 0 unless Overlap is OverlapQueue.
	QueueLimit int
	Tags       map[string]string

	CreatedAt, UpdatedAt time.Time
	// PausedAt is when it was paused, for PauseReason; zero when it is not.
	PausedAt    time.Time
	PauseReason string
	// NextFire is the next time by the timetable, to which a jitter adds. Zero when there is none; while the schedule
	// is paused, nothing happens at that time.
	NextFire time.Time
	// LastFire is the time of the last fire, whatever became of it; zero when there was none.
	LastFire time.Time
	// LastRun is the run that was started last and LastRunFlow its flow; empty when there was none.
	LastRun, LastRunFlow string
	// LastRunState is how that run stands; empty when there was none or it was purged.
	LastRunState RunState
	// Waiting is the number of fires whose run is still to be started.
	Waiting int
	// Started, Skipped, Missed and Failed count fires by their outcome.
	Started, Skipped, Missed, Failed int64
	// History holds the last fires, the newest first, at most 50. Only DescribeSchedule fills it.
	History []ScheduleFire
}

// ScheduleFireOutcome is what became of a fire. Its text is part of the stored form.
type ScheduleFireOutcome string

// The outcomes.
const (
	// ScheduleFireStarted has a run.
	ScheduleFireStarted = ScheduleFireOutcome(schedule.FireStarted)
	// ScheduleFireSkipped was not started because of the overlap policy, or because the timetable was changed while the
	// jitter delayed it.
	ScheduleFireSkipped = ScheduleFireOutcome(schedule.FireSkipped)
	// ScheduleFireMissed was not started because no keeper was there within the catch-up window, or too many were to be
	// made up.
	ScheduleFireMissed = ScheduleFireOutcome(schedule.FireMissed)
	// ScheduleFireFailed could not be started.
	ScheduleFireFailed = ScheduleFireOutcome(schedule.FireFailed)
)

// ScheduleFire is one fire of a schedule, or several in a row that were missed.
type ScheduleFire struct {
	// At is the time that the fire is for, Until that of the last one of several.
	At, Until time.Time
	// Count is the number of fires, 1 unless several were missed.
	Count int64
	// DoneAt is when the outcome was known.
	DoneAt  time.Time
	Outcome ScheduleFireOutcome
	// Flow and Run name the run that was started.
	Flow, Run string
	// Reason says why none was.
	Reason string
	// Triggered tells a fire of TriggerSchedule.
	Triggered bool
}

// DescribeSchedule returns a schedule of the client's namespace with its history. The error wraps ErrScheduleNotFound
// when there is none.
func (c *Client) DescribeSchedule(ctx context.Context, name string) (*ScheduleDescription, error) {
	fail := func(err error) (*ScheduleDescription, error) {
		return nil, fmt.Errorf("describe schedule %.140q: %w", name, err)
	}
	p, id, err := c.locateSchedule(name)
	if err != nil {
		return fail(err)
	}
	r, history, err := schedule.Store{Session: c.session}.Read(ctx, p, id, schedule.ScheduleHistory)
	if err != nil {
		return fail(err)
	}
	if r.State.Deleting {
		return fail(ErrScheduleNotFound)
	}
	d, err := c.describeSchedule(ctx, r, history)
	if err != nil {
		return fail(err)
	}
	return d, nil
}

// Schedules yields the schedules of the client's namespace, in no particular order, without their histories. They are
// read page by page while the iteration goes on; one that is made or deleted meanwhile may be in it or not. An error
// ends it.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[*ScheduleDescription, error] {
	return func(yield func(*ScheduleDescription, error) bool) {
		if _, err := offered[engine.ScheduleCalls](c); err != nil {
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

// yieldSchedules yields those of a partition.
func (c *Client) yieldSchedules(
	ctx context.Context, p enginecore.Partition, yield func(*ScheduleDescription, error) bool,
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
					engine.EventScheduleFailed.Attr(),
					slog.Any("error", err))
				continue
			}
			if err != nil {
				return false, err
			}
			if r.State.Deleting || enginecore.Namespace(r.Spec.Namespace) != c.session.Namespace {
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
func parseFire(text string) (ScheduleFire, error) {
	entry, err := schedule.ReadFire(text)
	if err != nil {
		return ScheduleFire{}, err
	}
	return ScheduleFire{
		At: schedule.UnixTime(entry.At), Until: schedule.UnixTime(max(entry.At, entry.Until)),
		Count: max(1, entry.Count), DoneAt: schedule.UnixTime(entry.Done),
		Outcome: ScheduleFireOutcome(entry.Outcome), Flow: entry.Flow, Run: entry.Run, Reason: entry.Reason,
		Triggered: entry.Manual,
	}, nil
}

func (c *Client) describeSchedule(
	ctx context.Context, r *schedule.Record, history []string,
) (*ScheduleDescription, error) {
	spec, state := &r.Spec, &r.State
	d := &ScheduleDescription{
		Name: spec.Name, Flow: spec.Flow, Cron: spec.Cron, TimeZone: spec.Zone,
		Every:      time.Duration(spec.EveryMS) * time.Millisecond,
		StartingAt: schedule.UnixTime(spec.StartMS), EndingAt: schedule.UnixTime(spec.EndMS),
		Jitter:  time.Duration(spec.JitterMS) * time.Millisecond,
		CatchUp: spec.CatchUp(), Overlap: OverlapPolicy(spec.Overlap), QueueLimit: spec.QueueLimit, Tags: spec.Tags,
		CreatedAt: schedule.UnixTime(state.CreatedAt), UpdatedAt: schedule.UnixTime(state.UpdatedAt),
		PausedAt:    schedule.UnixTime(state.PausedAt),
		PauseReason: state.PauseReason, NextFire: schedule.UnixTime(state.Due),
		LastFire: schedule.UnixTime(state.LastFire),
		Waiting:  len(state.Waiting), Started: state.Started, Skipped: state.Skipped, Missed: state.Missed,
		Failed: state.Failed,
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
		d.LastRunState = runState(reply.State, reply.Outcome)
	}
	return d, nil
}
