package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// scheduleDraft is a declared and checked schedule.
type ScheduleDraft struct {
	Spec    ScheduleSpec
	Times   *timetable.Timetable
	Content ScheduleContent
	// paused and reason count for a new schedule only.
	Paused bool
	Reason string
}

// declare makes a schedule or changes the one of the same name, and returns its record.
func (s *ScheduleRunner) Declare(ctx context.Context, draft *ScheduleDraft) (*ScheduleRecord, error) {
	id := draft.Spec.Id()
	p, err := s.session.Core.Partitioning().SchedulePartition(id)
	if err != nil {
		return nil, err
	}
	for {
		r, _, err := s.store.Read(ctx, p, id, 0)
		switch {
		case errors.Is(err, ErrScheduleNotFound):
			draft.create(r)
		case err != nil:
			return nil, err
		case r.State.Deleting:
			if err := s.finishDelete(ctx, p, id); err != nil {
				return nil, err
			}
			continue
		case !draft.change(r):
			return r, nil
		}
		err = s.store.save(ctx, r, &draft.Content, true)
		if !errors.Is(err, enginecore.ErrScheduleChanged) {
			return r, err
		}
	}
}

// create fills the record of a new schedule.
func (d *ScheduleDraft) create(r *ScheduleRecord) {
	now := r.now.UnixMilli()
	r.Spec, r.times = d.Spec, d.Times
	r.State = ScheduleState{CreatedAt: now, UpdatedAt: now, Plan: 1, Plans: []int{1}}
	if d.Paused {
		r.State.PausedAt, r.State.PauseReason = now, d.Reason
	}
	r.planNext()
}

// change brings the record of a schedule up to date and reports whether it differed.
func (d *ScheduleDraft) change(r *ScheduleRecord) bool {
	before, _ := json.Marshal(&r.Spec)
	after, _ := json.Marshal(&d.Spec)
	if slices.Equal(before, after) {
		return false
	}
	same := r.Spec.sameTimes(&d.Spec)
	r.Spec, r.times = d.Spec, d.Times
	r.State.UpdatedAt = r.now.UnixMilli()
	r.State.Plan = slices.Max(r.State.Plans) + 1
	r.State.Plans = append(r.State.Plans, r.State.Plan)
	if !same {
		r.State.Fired = nil // they are times of another timetable
		r.planNext()
	}
	r.urgent = true
	return true
}

// changeKept changes a schedule that is not being deleted; others give errScheduleNotFound. The change returns false when
// there is nothing to write.
func (s ScheduleStore) ChangeKept(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID, change func(*ScheduleRecord) (bool, error)) error {
	_, err := s.change(ctx, p, id, func(r *ScheduleRecord) (bool, error) {
		if r.State.Deleting {
			return false, ErrScheduleNotFound
		}
		return change(r)
	})
	return err
}

// pause makes the schedule start nothing but triggered fires. Pausing again changes the reason.
func (r *ScheduleRecord) Pause(reason string) {
	if r.State.PausedAt == 0 {
		r.State.PausedAt = r.now.UnixMilli()
	}
	r.State.PauseReason = reason
}

// resume ends a pause, and reports whether there was one. Times of the timetable during the pause are not made up.
func (r *ScheduleRecord) Resume() bool {
	if r.State.PausedAt == 0 {
		return false
	}
	r.State.PausedAt, r.State.PauseReason = 0, ""
	r.planNext()
	r.urgent = true
	return true
}

// trigger adds a fire for the present moment. Its error wraps errScheduleFull.
func (r *ScheduleRecord) Trigger() (PendingFire, error) {
	// What waits with a run before it is one more than is in the queue.
	waiting := len(r.State.Waiting)
	if r.Spec.Overlap == OverlapQueue && waiting > r.Spec.QueueLimit || waiting >= maxWaitingFires {
		return PendingFire{}, fmt.Errorf("%w: %d", ErrScheduleFull, waiting)
	}
	r.push(PendingFire{At: r.now.UnixMilli(), Triggered: true})
	fire := r.State.Waiting[len(r.State.Waiting)-1]
	r.State.LastFire = fire.At
	return fire, nil
}

// startTriggered takes the steps that a keeper would take, until a triggered fire has its run or has to wait for the end of
// another. The error wraps errFireSkipped when the overlap policy starts nothing.
func (s *ScheduleRunner) StartTriggered(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID, fire PendingFire) error {
	for {
		r, history, err := s.store.Read(ctx, p, id, ScheduleHistory)
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
			engine.Pause(ctx, keeperPause) // a keeper starts it
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
func (r *ScheduleRecord) isWaiting(fire PendingFire) bool {
	return slices.ContainsFunc(r.State.Waiting, func(f PendingFire) bool { return f.Serial == fire.Serial })
}

// triggerError is why a triggered fire that waits no more was not started; nil when it was.
func triggerError(fire PendingFire, history []string) error {
	for _, text := range history {
		entry, err := ReadFire(text)
		switch {
		case err != nil:
			return err
		case !entry.Manual || entry.At != fire.At:
		case entry.Outcome == FireSkipped:
			return fmt.Errorf("%w: %s", ErrFireSkipped, entry.Reason)
		case entry.Outcome == FireFailed:
			return errors.New(entry.Reason)
		default:
			return nil
		}
	}
	return nil
}

// delete removes a schedule with its history, after the fire that a keeper may be starting.
func (s *ScheduleRunner) Delete(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID) error {
	_, err := s.store.change(ctx, p, id, func(r *ScheduleRecord) (bool, error) {
		r.State.Deleting, r.urgent = true, true
		r.State.Waiting = slices.DeleteFunc(r.State.Waiting, func(f PendingFire) bool { return f.StartBefore == 0 })
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
func (s *ScheduleRunner) finishDelete(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID) error {
	for {
		r, _, err := s.store.Read(ctx, p, id, 0)
		if errors.Is(err, ErrScheduleNotFound) || err == nil && !r.State.Deleting {
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
			engine.Pause(ctx, keeperPause)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
