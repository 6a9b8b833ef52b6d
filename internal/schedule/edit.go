package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
)

// Draft is a declared schedule, validated by the caller, for Runner.Declare. All fields but Paused
// and Reason are required.
type Draft struct {
	Spec    Spec
	Times   *timetable.Timetable
	Content Content
	// Paused and Reason apply to a new schedule only: an existing one remains paused or active.
	Paused bool
	Reason string
}

// Compiled is the flow and the encoded input that a schedule starts.
type Compiled struct {
	Flow  *submit.CompiledFlow
	Input []byte
}

// Declare creates a schedule, or changes the existing one of the same name if its spec differs, and returns its
// record. It completes a pending deletion of that schedule first.
func (s *Runner) Declare(
	ctx context.Context, draft *Draft, changing func(save func() error) error,
) (*Record, error) {
	id := draft.Spec.ID()
	p, err := s.session.Core.Partitioning().SchedulePartition(id)
	if err != nil {
		return nil, err
	}
	for {
		r, _, err := s.store.Read(ctx, p, id, 0)
		switch {
		case errors.Is(err, engine.ErrScheduleNotFound):
			draft.create(r)
		case err != nil:
			return nil, err
		case r.State.Deleting:
			if err := s.finishDelete(ctx, p, id); err != nil {
				return nil, err
			}
			continue
		case !draft.differs(r):
			return r, nil
		default:
			if err := s.store.settleDue(ctx, r); err != nil {
				return nil, err
			}
			draft.change(r)
		}
		err = changing(func() error { return s.store.save(ctx, r, &draft.Content, true) })
		if !errors.Is(err, errorcode.ScheduleChanged) {
			return r, err
		}
	}
}

// create fills the record of a new schedule.
func (d *Draft) create(r *Record) {
	now := r.now.UnixMilli()
	r.Spec, r.times = d.Spec, d.Times
	r.State = State{CreatedAt: now, UpdatedAt: now, Plan: 1, Plans: []int{1}}
	if d.Paused {
		r.State.PausedAt, r.State.PauseReason = now, d.Reason
	}
	r.planNext()
}

// differs reports whether the draft differs from the record of an existing schedule.
func (d *Draft) differs(r *Record) bool {
	before, _ := json.Marshal(&r.Spec)
	after, _ := json.Marshal(&d.Spec)
	return !slices.Equal(before, after)
}

// change applies the draft to the record of an existing schedule, whose due times have been settled.
func (d *Draft) change(r *Record) {
	if !r.Spec.sameTimes(&d.Spec) {
		r.skipDelayed("the timetable was changed before the jitter had passed")
		r.State.Fired = nil // its times come from the old timetable
		r.times = d.Times
		r.planNext()
		r.moveBackfills()
	}
	r.Spec, r.times = d.Spec, d.Times
	r.State.UpdatedAt = r.now.UnixMilli()
	r.State.Plan = slices.Max(r.State.Plans) + 1
	r.State.Plans = append(r.State.Plans, r.State.Plan)
	r.urgent = true
}

// ChangeKept reads a schedule, applies a change and writes it, again if another process has written it in between: the
// function may be called several times. It returns false if there is nothing to write. The error wraps
// engine.ErrScheduleNotFound for a schedule that does not exist or is being deleted.
func (s Store) ChangeKept(
	ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID, change func(*Record) (bool, error),
) error {
	_, err := s.change(ctx, p, id, func(r *Record) (bool, error) {
		if r.State.Deleting {
			return false, engine.ErrScheduleNotFound
		}
		return change(r)
	})
	return err
}

// Pause suspends the timetable of a schedule: from now on only triggered fires start. Times that are due become
// waiting, skipped or missed fires, as if a keeper had seen them just before; the waiting ones start after the pause.
// For a paused schedule it replaces the reason. The error wraps engine.ErrScheduleNotFound for a schedule that does not
// exist or is being deleted.
func (s Store) Pause(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID, reason string) error {
	return s.ChangeKept(ctx, p, id, func(r *Record) (bool, error) {
		if err := s.settleDue(ctx, r); err != nil {
			return false, err
		}
		if r.State.PausedAt == 0 {
			r.State.PausedAt = r.now.UnixMilli()
		}
		r.State.PauseReason = reason
		return true, nil
	})
}

// Resume ends a pause, and reports whether there was one. Fires that came due during the pause are not made up for. The
// caller writes the record.
func (r *Record) Resume() bool {
	if r.State.PausedAt == 0 {
		return false
	}
	r.State.PausedAt, r.State.PauseReason = 0, ""
	r.dropRipe()
	r.urgent = true
	return true
}

// Trigger adds a fire for the present time of the engine, also to a paused schedule, and returns it. A request that has
// an id adds one fire: when it comes again, known is true, and there is nothing to write. The error wraps
// ErrScheduleFull if too many fires wait. The caller writes the record.
func (r *Record) Trigger(request string) (_ PendingFire, known bool, _ error) {
	if done := r.State.request(request); done != nil {
		return PendingFire{At: done.At, Serial: done.Serial, Triggered: true}, true, nil
	}
	// The first waiting fire does not count against the queue limit.
	waiting := len(r.State.Waiting)
	if r.Spec.Overlap == fabrictype.OverlapQueue && waiting > r.Spec.QueueLimit || waiting >= maxWaitingFires {
		return PendingFire{}, false, fmt.Errorf("%w: %d", ErrScheduleFull, waiting)
	}
	r.push(PendingFire{At: r.now.UnixMilli(), Triggered: true})
	fire := r.State.Waiting[len(r.State.Waiting)-1]
	r.State.LastFire = fire.At
	r.State.remember(DoneRequest{ID: request, At: fire.At, Serial: fire.Serial})
	return fire, false, nil
}

// StartTriggered takes the steps that a keeper would take, until a triggered fire has its run or waits for the end of
// another run. The error wraps ErrFireSkipped if the overlap policy starts no run for it; it is the reason of the
// failure if the run cannot be started, or the cause of ctx.
func (s *Runner) StartTriggered(
	ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID, fire PendingFire,
) error {
	for {
		r, history, err := s.store.Read(ctx, p, id, ScheduleHistory)
		if err != nil {
			return err
		}
		if !r.isWaiting(fire) {
			return triggerError(fire, history)
		}
		more, err := s.step(ctx, r, false)
		switch {
		case errors.Is(err, errorcode.ScheduleChanged):
		case err != nil:
			return err
		case !more && r.starting() >= 0:
			sleep.For(ctx, keeperPause) // a keeper starts it
		case !more && r.isWaiting(fire):
			// The write notifies the keepers, so that one of them waits for the end of the run.
			r.urgent = true
			err := s.store.save(ctx, r, nil, false)
			if errors.Is(err, errorcode.ScheduleChanged) {
				return nil
			}
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// isWaiting reports whether a fire still waits for its run.
func (r *Record) isWaiting(fire PendingFire) bool {
	return slices.ContainsFunc(r.State.Waiting, func(f PendingFire) bool { return f.Serial == fire.Serial })
}

// triggerError returns why a triggered fire that no longer waits was not started; nil if it was.
func triggerError(fire PendingFire, history []string) error {
	for _, text := range history {
		entry, err := ReadFire(text)
		switch {
		case err != nil:
			return err
		case !entry.Manual || entry.At != fire.At:
		case entry.Outcome == fabrictype.FireSkipped:
			return fmt.Errorf("%w: %s", ErrFireSkipped, entry.Reason)
		case entry.Outcome == fabrictype.FireFailed:
			return errors.New(entry.Reason)
		default:
			return nil
		}
	}
	return nil
}

// Delete removes a schedule with its history, once the fire that a keeper may be starting has its run. It returns the
// cause of ctx if that ends before: the schedule stays marked as being deleted, and keepers complete the deletion.
// The error wraps engine.ErrScheduleNotFound if the schedule does not exist.
func (s *Runner) Delete(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
	_, err := s.store.change(ctx, p, id, func(r *Record) (bool, error) {
		r.State.Deleting, r.urgent = true, true
		r.State.Waiting = slices.DeleteFunc(r.State.Waiting, func(f PendingFire) bool { return f.StartBefore == 0 })
		return true, nil
	})
	if err != nil {
		return err
	}
	return s.finishDelete(ctx, p, id)
}

// keeperPause is the time between two reads of a schedule while a keeper starts a run of it.
const keeperPause = 20 * time.Millisecond

// finishDelete removes a schedule that is marked as being deleted, as keepers also do.
func (s *Runner) finishDelete(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
	for {
		r, _, err := s.store.Read(ctx, p, id, 0)
		if errors.Is(err, engine.ErrScheduleNotFound) || err == nil && !r.State.Deleting {
			return nil
		}
		if err != nil {
			return err
		}
		more, err := s.step(ctx, r, false)
		switch {
		case errors.Is(err, errorcode.ScheduleChanged):
		case err != nil:
			return err
		case !more:
			sleep.For(ctx, keeperPause)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
