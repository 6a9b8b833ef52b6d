package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
)

// locateSchedule finds where a schedule of the client's namespace lives.
func (c *Client) locateSchedule(name string) (enginecore.Partition, enginecore.ScheduleID, error) {
	if _, err := c.engine.composites(); err != nil {
		return enginecore.Partition{}, "", err
	}
	if err := activity.CheckName(name); err != nil {
		return enginecore.Partition{}, "", fmt.Errorf("%w: %w", ErrSchedule, err)
	}
	id := enginecore.ScheduleIDFor(c.engine.namespace, name)
	p, err := c.engine.core.Partitioning().SchedulePartition(id)
	return p, id, err
}

// changeSchedule changes a schedule that is not being deleted.
func (c *Client) changeSchedule(ctx context.Context, do, name string, change func(*scheduleRecord) (bool, error)) error {
	p, id, err := c.locateSchedule(name)
	if err == nil {
		_, err = c.engine.changeSchedule(ctx, p, id, func(r *scheduleRecord) (bool, error) {
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

// TriggerSchedule fires a schedule now, by the engine's clock, also while it is paused or after its end, and returns the id
// that the run gets. A keeper starts the run under the overlap policy, so it may be skipped. The timetable goes on as it would
// have. The error wraps ErrScheduleNotFound, or ErrScheduleFull when as many fires wait as may.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (runID string, err error) {
	err = c.changeSchedule(ctx, "trigger", name, func(r *scheduleRecord) (bool, error) {
		// What waits with a run before it is one more than is in the queue.
		if waiting := len(r.state.Waiting); r.spec.Overlap == OverlapQueue && waiting > r.spec.QueueLimit || waiting >= maxWaitingFires {
			return false, fmt.Errorf("%w: %d", ErrScheduleFull, waiting)
		}
		r.push(pendingFire{At: r.now.UnixMilli(), Triggered: true})
		runID = runOf(r.spec.Name, r.state.Waiting[len(r.state.Waiting)-1])
		r.state.LastFire = r.now.UnixMilli()
		r.urgent = true
		return true, nil
	})
	if err != nil {
		return "", err
	}
	return runID, nil
}

// DeleteSchedule removes a schedule with its history. Its runs stay; fires that wait are dropped. Where a keeper is just
// starting a run, it waits for that, about ten seconds if the keeper has stopped in the middle. The error wraps
// ErrScheduleNotFound when there is none. A schedule of the same name may be made afterwards.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	p, id, err := c.locateSchedule(name)
	if err == nil {
		_, err = c.engine.changeSchedule(ctx, p, id, func(r *scheduleRecord) (bool, error) {
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

// deletePause is how long to wait for a keeper that starts a run.
const deletePause = 20 * time.Millisecond

// finishDelete removes a schedule that is marked so, which keepers do as well.
func (c *Client) finishDelete(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID) error {
	keeper := newScheduleKeeper(c.engine, false)
	defer keeper.close()
	for {
		r, _, err := c.engine.readSchedule(ctx, p, id, 0)
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
			pause(ctx, deletePause)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
