package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
)

// scheduleDraft is a declared and checked schedule.
type scheduleDraft struct {
	spec    scheduleSpec
	times   *timetable.Timetable
	content scheduleContent
	// paused and reason count for a new schedule only.
	paused bool
	reason string
}

// declare makes a schedule or changes the one of the same name, and returns its record.
func (s *scheduleRunner) declare(ctx context.Context, draft *scheduleDraft) (*scheduleRecord, error) {
	id := draft.spec.id()
	p, err := s.session.core.Partitioning().SchedulePartition(id)
	if err != nil {
		return nil, err
	}
	for {
		r, _, err := s.store.read(ctx, p, id, 0)
		switch {
		case errors.Is(err, errScheduleNotFound):
			draft.create(r)
		case err != nil:
			return nil, err
		case r.state.Deleting:
			if err := s.finishDelete(ctx, p, id); err != nil {
				return nil, err
			}
			continue
		case !draft.change(r):
			return r, nil
		}
		err = s.store.save(ctx, r, &draft.content, true)
		if !errors.Is(err, enginecore.ErrScheduleChanged) {
			return r, err
		}
	}
}

// create fills the record of a new schedule.
func (d *scheduleDraft) create(r *scheduleRecord) {
	now := r.now.UnixMilli()
	r.spec, r.times = d.spec, d.times
	r.state = scheduleState{CreatedAt: now, UpdatedAt: now, Plan: 1, Plans: []int{1}}
	if d.paused {
		r.state.PausedAt, r.state.PauseReason = now, d.reason
	}
	r.planNext()
}

// change brings the record of a schedule up to date and reports whether it differed.
func (d *scheduleDraft) change(r *scheduleRecord) bool {
	before, _ := json.Marshal(&r.spec)
	after, _ := json.Marshal(&d.spec)
	if slices.Equal(before, after) {
		return false
	}
	same := r.spec.sameTimes(&d.spec)
	r.spec, r.times = d.spec, d.times
	r.state.UpdatedAt = r.now.UnixMilli()
	r.state.Plan = slices.Max(r.state.Plans) + 1
	r.state.Plans = append(r.state.Plans, r.state.Plan)
	if !same {
		r.state.Fired = nil // they are times of another timetable
		r.planNext()
	}
	r.urgent = true
	return true
}

// changeKept changes a schedule that is not being deleted; others give errScheduleNotFound. The change returns false when
// there is nothing to write.
func (s scheduleStore) changeKept(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID, change func(*scheduleRecord) (bool, error)) error {
	_, err := s.change(ctx, p, id, func(r *scheduleRecord) (bool, error) {
		if r.state.Deleting {
			return false, errScheduleNotFound
		}
		return change(r)
	})
	return err
}

// pause makes the schedule start nothing but triggered fires. Pausing again changes the reason.
func (r *scheduleRecord) pause(reason string) {
	if r.state.PausedAt == 0 {
		r.state.PausedAt = r.now.UnixMilli()
	}
	r.state.PauseReason = reason
}

// resume ends a pause, and reports whether there was one. Times of the timetable during the pause are not made up.
func (r *scheduleRecord) resume() bool {
	if r.state.PausedAt == 0 {
		return false
	}
	r.state.PausedAt, r.state.PauseReason = 0, ""
	r.planNext()
	r.urgent = true
	return true
}

// trigger adds a fire for the present moment. Its error wraps errScheduleFull.
func (r *scheduleRecord) trigger() (pendingFire, error) {
	// What waits with a run before it is one more than is in the queue.
	waiting := len(r.state.Waiting)
	if r.spec.Overlap == overlapQueue && waiting > r.spec.QueueLimit || waiting >= maxWaitingFires {
		return pendingFire{}, fmt.Errorf("%w: %d", errScheduleFull, waiting)
	}
	r.push(pendingFire{At: r.now.UnixMilli(), Triggered: true})
	fire := r.state.Waiting[len(r.state.Waiting)-1]
	r.state.LastFire = fire.At
	return fire, nil
}

// startTriggered takes the steps that a keeper would take, until a triggered fire has its run or has to wait for the end of
// another. The error wraps errFireSkipped when the overlap policy starts nothing.
func (s *scheduleRunner) startTriggered(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID, fire pendingFire) error {
	for {
		r, history, err := s.store.read(ctx, p, id, scheduleHistory)
		if err != nil {
			return err
		}
		if !r.isWaiting(fire) {
			return triggerError(fire, history)
		}
		more, err := s.step(ctx, r)
		switch {
		case errors.Is(err, enginecore.ErrScheduleChanged):
		case err != nil:
			return err
		case !more && r.starting() >= 0:
			pause(ctx, keeperPause) // a keeper starts it
		case !more && r.isWaiting(fire):
			// Keepers are told, so that one of them waits for the end of the run.
			r.urgent = true
			err := s.store.save(ctx, r, nil, false)
			if errors.Is(err, enginecore.ErrScheduleChanged) {
				return nil
			}
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// isWaiting reports whether a fire waits to be started.
func (r *scheduleRecord) isWaiting(fire pendingFire) bool {
	return slices.ContainsFunc(r.state.Waiting, func(f pendingFire) bool { return f.Serial == fire.Serial })
}

// triggerError is why a triggered fire that waits no more was not started; nil when it was.
func triggerError(fire pendingFire, history []string) error {
	for _, text := range history {
		entry, err := readFire(text)
		switch {
		case err != nil:
			return err
		case !entry.Manual || entry.At != fire.At:
		case entry.Outcome == fireSkipped:
			return fmt.Errorf("%w: %s", errFireSkipped, entry.Reason)
		case entry.Outcome == fireFailed:
			return errors.New(entry.Reason)
		default:
			return nil
		}
	}
	return nil
}

// delete removes a schedule with its history, after the fire that a keeper may be starting.
func (s *scheduleRunner) delete(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID) error {
	_, err := s.store.change(ctx, p, id, func(r *scheduleRecord) (bool, error) {
		r.state.Deleting, r.urgent = true, true
		r.state.Waiting = slices.DeleteFunc(r.state.Waiting, func(f pendingFire) bool { return f.StartBefore == 0 })
		return true, nil
	})
	if err != nil {
		return err
	}
	return s.finishDelete(ctx, p, id)
}

// keeperPause is the time between two looks at a schedule while a keeper starts a run of it.
const keeperPause = 20 * time.Millisecond

// finishDelete removes a schedule that is marked as deleted, which keepers do as well.
func (s *scheduleRunner) finishDelete(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID) error {
	for {
		r, _, err := s.store.read(ctx, p, id, 0)
		if errors.Is(err, errScheduleNotFound) || err == nil && !r.state.Deleting {
			return nil
		}
		if err != nil {
			return err
		}
		more, err := s.step(ctx, r)
		switch {
		case errors.Is(err, enginecore.ErrScheduleChanged):
		case err != nil:
			return err
		case !more:
			pause(ctx, keeperPause)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
