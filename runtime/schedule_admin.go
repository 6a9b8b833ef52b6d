package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// locateSchedule finds where a schedule of the client's namespace lives.
func (c *Client) locateSchedule(name string) (enginecore.Partition, enginecore.ScheduleID, error) {
	if _, err := c.composites(); err != nil {
		return enginecore.Partition{}, "", err
	}
	if err := activityspec.CheckName(name); err != nil {
		return enginecore.Partition{}, "", fmt.Errorf("%w: %w", ErrSchedule, err)
	}
	id := enginecore.ScheduleIDFor(c.session.namespace, name)
	p, err := c.session.core.Partitioning().SchedulePartition(id)
	return p, id, err
}

// changeSchedule changes a schedule that is not being deleted.
func (c *Client) changeSchedule(ctx context.Context, do, name string, change func(*scheduleRecord) (bool, error)) error {
	p, id, err := c.locateSchedule(name)
	if err == nil {
		_, err = c.session.changeSchedule(ctx, p, id, func(r *scheduleRecord) (bool, error) {
			if r.state.Deleting {
				return false, ErrScheduleNotFound
			}
			return change(r)
		})
	}
	if err != nil {
		return fmt.Errorf("%s schedule %.140q: %w", do, name, err)
	}
	return nil
}

// PauseSchedule makes a schedule start nothing but what is triggered, until ResumeSchedule. Runs that are open go on, fires
// that wait for the end of a run are kept. Pausing it again changes the reason. The error wraps ErrScheduleNotFound when
// there is none.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) error {
	if err := checkReason(reason); err != nil {
		return fmt.Errorf("pause schedule %.140q: %w", name, err)
	}
	return c.changeSchedule(ctx, "pause", name, func(r *scheduleRecord) (bool, error) {
		if r.state.PausedAt == 0 {
			r.state.PausedAt = r.now.UnixMilli()
		}
		r.state.PauseReason = reason
		return true, nil
	})
}

// ResumeSchedule ends a pause. Fires whose time came during the pause are not made up: the next one is the first after now, by
// the engine's clock. A schedule that is not paused is left alone.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	return c.changeSchedule(ctx, "resume", name, func(r *scheduleRecord) (bool, error) {
		if r.state.PausedAt == 0 {
			return false, nil
		}
		r.state.PausedAt, r.state.PauseReason = 0, ""
		r.planNext()
		r.urgent = true
		return true, nil
	})
}

// TriggerSchedule fires a schedule now, by the engine's clock, also while it is paused or after its end, and returns the id of
// the run. When it returns, the run has been started, or waits for the end of the run before, as the overlap policy has it.
// The timetable goes on as it would have.
//
// The error wraps ErrScheduleNotFound, ErrScheduleFull when as many fires wait as may, or ErrFireSkipped when the overlap policy
// starts nothing because a run is open. Where the call is interrupted after the fire was written, a keeper starts the run.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (runID string, err error) {
	var fire pendingFire
	err = c.changeSchedule(ctx, "trigger", name, func(r *scheduleRecord) (bool, error) {
		// What waits with a run before it is one more than is in the queue.
		if waiting := len(r.state.Waiting); r.spec.Overlap == OverlapQueue && waiting > r.spec.QueueLimit || waiting >= maxWaitingFires {
			return false, fmt.Errorf("%w: %d", ErrScheduleFull, waiting)
		}
		r.push(pendingFire{At: r.now.UnixMilli(), Triggered: true})
		fire = r.state.Waiting[len(r.state.Waiting)-1]
		r.state.LastFire = fire.At
		return true, nil
	})
	if err == nil {
		err = c.startTriggered(ctx, name, fire)
	}
	if err != nil {
		return "", err
	}
	return runOf(name, fire), nil
}

// startTriggered does what a keeper would do, until the fire has its run or has to wait for the end of another.
func (c *Client) startTriggered(ctx context.Context, name string, fire pendingFire) error {
	fault := func(err error) error { return fmt.Errorf("trigger schedule %.140q: %w", name, err) }
	p, id, err := c.locateSchedule(name)
	if err != nil {
		return fault(err)
	}
	keeper := newScheduleKeeper(c.session, false)
	defer keeper.close()
	for {
		r, history, err := c.session.readSchedule(ctx, p, id, ScheduleHistory)
		if err != nil {
			return fault(err)
		}
		if !slices.ContainsFunc(r.state.Waiting, func(f pendingFire) bool { return f.Serial == fire.Serial }) {
			return c.triggerOutcome(fault, fire, history)
		}
		more, err := keeper.step(ctx, r)
		switch {
		case errors.Is(err, enginecore.ErrScheduleChanged):
		case err != nil:
			return fault(err)
		case !more && r.starting() >= 0:
			pause(ctx, keeperPause) // a keeper is at it
		case !more && slices.ContainsFunc(r.state.Waiting, func(f pendingFire) bool { return f.Serial == fire.Serial }):
			// Keepers are told, so that one of them waits for the end of the run.
			r.urgent = true
			err := c.session.saveSchedule(ctx, r, nil, false)
			if err == nil || errors.Is(err, enginecore.ErrScheduleChanged) {
				return nil
			}
			return fault(err)
		}
		if ctx.Err() != nil {
			return fault(context.Cause(ctx))
		}
	}
}

// triggerOutcome is the error of a fire that waits no more.
func (c *Client) triggerOutcome(fault func(error) error, fire pendingFire, history []string) error {
	for _, text := range history {
		entry, err := parseFire(text)
		switch {
		case err != nil:
			return fault(err)
		case !entry.Triggered || entry.At.UnixMilli() != fire.At:
		case entry.Outcome == FireSkipped:
			return fault(fmt.Errorf("%w: %s", ErrFireSkipped, entry.Reason))
		case entry.Outcome == FireFailed:
			return fault(errors.New(entry.Reason))
		default:
			return nil
		}
	}
	return nil
}

// DeleteSchedule removes a schedule with its history. Its runs stay; fires that wait are dropped. Where a keeper is just
// starting a run, it waits for that, about ten seconds if the keeper has stopped in the middle. The error wraps
// ErrScheduleNotFound when there is none. A schedule of the same name may be made afterwards.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	p, id, err := c.locateSchedule(name)
	if err == nil {
		_, err = c.session.changeSchedule(ctx, p, id, func(r *scheduleRecord) (bool, error) {
			r.state.Deleting, r.urgent = true, true
			r.state.Waiting = slices.DeleteFunc(r.state.Waiting, func(f pendingFire) bool { return f.StartBefore == 0 })
			return true, nil
		})
	}
	if err == nil {
		err = c.finishDelete(ctx, p, id)
	}
	if err != nil {
		return fmt.Errorf("delete schedule %.140q: %w", name, err)
	}
	return nil
}

// keeperPause is how long to wait for a keeper that starts a run.
const keeperPause = 20 * time.Millisecond

// finishDelete removes a schedule that is marked so, which keepers do as well.
func (c *Client) finishDelete(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID) error {
	keeper := newScheduleKeeper(c.session, false)
	defer keeper.close()
	for {
		r, _, err := c.session.readSchedule(ctx, p, id, 0)
		if errors.Is(err, ErrScheduleNotFound) || err == nil && !r.state.Deleting {
			return nil
		}
		if err != nil {
			return err
		}
		more, err := keeper.step(ctx, r)
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
