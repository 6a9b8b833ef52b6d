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
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
)

// ScheduleDescription is the state of a schedule at one moment. Times are those of the engine's clock.
type ScheduleDescription struct {
	Name, Flow string
	// Cron and TimeZone, or Every, and the fields below are those of ScheduleConfig with defaults applied.
	Cron, TimeZone string
	Every          time.Duration
	// StartingAt and EndingAt are zero when there is no such bound.
	StartingAt, EndingAt time.Time
	Jitter, CatchUp      time.Duration
	Overlap              fabrictype.OverlapPolicy
	// QueueLimit is 0 unless Overlap is OverlapQueue.
	QueueLimit int
	Tags       map[string]string

	CreatedAt, UpdatedAt time.Time
	// PausedAt and PauseReason describe the pause; PausedAt is zero when the schedule is not paused.
	PausedAt    time.Time
	PauseReason string
	// NextFire is the time of the next fire, before jitter; zero when there is none. A paused schedule does not fire at
	// that time: it is the first one from now on that its timetable has.
	NextFire time.Time
	// LastFire is the time of the last fire, whatever its outcome; zero when there was none.
	LastFire time.Time
	// LastRun is the id of the run that was started last, and LastRunFlow its flow; empty when there was none.
	LastRun, LastRunFlow string
	// LastRunState is the state of that run; empty when there was none or it was purged.
	LastRunState fabrictype.RunState
	// Waiting is the number of fires whose runs have not been started yet.
	Waiting int
	// Backfills are those that are not finished, in order.
	Backfills []ScheduleBackfill
	// Started, Skipped, Missed and Failed count fires by outcome.
	Started, Skipped, Missed, Failed int64
	// History has the last fires, the newest first, at most 50. Only DescribeSchedule sets it.
	History []ScheduleFire
}

// ScheduleFire describes one fire of a schedule, or several consecutive fires that were missed.
type ScheduleFire struct {
	// At is the time of the fire. If Count is more than 1, it is the time of the first fire and Until that of the last
	// one.
	At, Until time.Time
	// Count is the number of fires; 1 unless several were missed.
	Count int64
	// DoneAt is when the outcome was determined.
	DoneAt  time.Time
	Outcome fabrictype.FireOutcome
	// Flow and Run identify the run that was started; empty if none was.
	Flow, Run string
	// Reason is why no run was started.
	Reason string
	// Triggered reports whether TriggerSchedule caused the fire.
	Triggered bool
	// Backfilled reports whether BackfillSchedule caused the fire.
	Backfilled bool
}

// DescribeSchedule returns the state of a schedule of the client's namespace, with its history. The error wraps
// ErrScheduleNotFound when the schedule does not exist.
func (c *Client) DescribeSchedule(ctx context.Context, name string) (*ScheduleDescription, error) {
	fail := func(err error) (*ScheduleDescription, error) {
		return nil, fmt.Errorf("describe schedule %.140q: %w", name, err)
	}
	p, id, err := c.locateSchedule(ctx, name)
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

// ScheduleInput returns the input of the runs of a schedule, as it was encoded. The field that FireTimeField names has
// the value of the declaration: fires set it anew. The error wraps ErrScheduleNotFound when the schedule does not
// exist.
func (c *Client) ScheduleInput(ctx context.Context, name string) (*fabrictype.Value, error) {
	fail := func(err error) (*fabrictype.Value, error) {
		return nil, fmt.Errorf("read input of schedule %.140q: %w", name, err)
	}
	p, id, err := c.locateSchedule(ctx, name)
	if err != nil {
		return fail(err)
	}
	content, err := schedule.Store{Session: c.session}.ReadPresent(ctx, p, id)
	if err != nil {
		return fail(err)
	}
	return newValue(codecName(content.Flow.Graph.Codec), len(content.Input), content.Input), nil
}

// Schedules yields the schedules of the client's namespace without their histories, in no particular order. It reads
// them in pages; a schedule that is created or deleted during the iteration may be included or not. An error ends the
// iteration.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[*ScheduleDescription, error] {
	return func(yield func(*ScheduleDescription, error) bool) {
		if _, err := offered[engine.ScheduleCalls](ctx, c); err != nil {
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
	ctx context.Context, p keyspace.Partition, yield func(*ScheduleDescription, error) bool,
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
func parseFire(text string) (ScheduleFire, error) {
	entry, err := schedule.ReadFire(text)
	if err != nil {
		return ScheduleFire{}, err
	}
	return ScheduleFire{
		At: schedule.UnixTime(entry.At), Until: schedule.UnixTime(max(entry.At, entry.Until)),
		Count: max(1, entry.Count), DoneAt: schedule.UnixTime(entry.Done),
		Outcome: fabrictype.FireOutcome(entry.Outcome), Flow: entry.Flow, Run: entry.Run, Reason: entry.Reason,
		Triggered: entry.Manual, Backfilled: entry.Backfill,
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
		CatchUp: spec.CatchUp(), Overlap: fabrictype.OverlapPolicy(spec.Overlap), QueueLimit: spec.QueueLimit,
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
		d.LastRunState = runState(reply.State, reply.Outcome)
	}
	return d, nil
}
