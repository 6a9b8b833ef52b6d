package runtime

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/schedule"
)

// locateSchedule finds where a schedule of the client's namespace lives.
func (c *Client) locateSchedule(name string) (enginecore.Partition, enginecore.ScheduleID, error) {
	if _, err := offered[engine.ScheduleCalls](c); err != nil {
		return enginecore.Partition{}, "", err
	}
	if err := activityspec.CheckName(name); err != nil {
		return enginecore.Partition{}, "", invalid("schedule: %w", err)
	}
	id := enginecore.ScheduleIDFor(c.session.Namespace, name)
	p, err := c.session.Core.Partitioning().SchedulePartition(id)
	return p, id, err
}

// changeSchedule changes a schedule that is not being deleted.
func (c *Client) changeSchedule(
	ctx context.Context, do, name string, change func(*schedule.Record) (bool, error),
) error {
	p, id, err := c.locateSchedule(name)
	if err == nil {
		err = schedule.Store{Session: c.session}.ChangeKept(ctx, p, id, change)
	}
	if err != nil {
		return fmt.Errorf("%s schedule %.140q: %w", do, name, err)
	}
	return nil
}

// PauseSchedule makes a schedule start nothing but what is triggered, until ResumeSchedule. Runs that are open go on. A
// fire that came due before the pause is kept, whether a keeper has seen it or not: it waits, and starts after
// ResumeSchedule, unless the overlap policy skips it or it is older than the catch-up window. Pausing it again changes
// the reason. The error wraps ErrScheduleNotFound when there is none.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) error {
	if err := engine.CheckReason(reason); err != nil {
		return fmt.Errorf("pause schedule %.140q: %w", name, err)
	}
	p, id, err := c.locateSchedule(name)
	if err == nil {
		err = schedule.Store{Session: c.session}.Pause(ctx, p, id, reason)
	}
	if err != nil {
		return fmt.Errorf("pause schedule %.140q: %w", name, err)
	}
	return nil
}

// ResumeSchedule ends a pause: fires that waited when it began are started, under the overlap policy. Those that came
// due during the pause are not made up: the next one is the first after now, by the engine's clock. A schedule that is
// not paused is left alone.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	return c.changeSchedule(ctx, "resume", name, func(r *schedule.Record) (bool, error) { return r.Resume(), nil })
}

// TriggerSchedule fires a schedule now, by the engine's clock, also while it is paused or after its end, and returns
// the id of the run. When it returns, the run has been started, or waits for the end of the run before, as the overlap
// policy has it. The timetable goes on as it would have.
//
// The error wraps ErrScheduleNotFound, ErrScheduleFull when as many fires wait as may, or ErrFireSkipped when the
// overlap policy starts nothing because a run is open. Where the call is interrupted after the fire was written, a
// keeper starts the run.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (runID string, err error) {
	var fire schedule.PendingFire
	err = c.changeSchedule(ctx, "trigger", name, func(r *schedule.Record) (_ bool, err error) {
		fire, err = r.Trigger()
		return err == nil, err
	})
	if err != nil {
		return "", err
	}
	p, id, err := c.locateSchedule(name)
	if err == nil {
		runner := schedule.NewRunner(c.session, false)
		defer runner.Close()
		err = runner.StartTriggered(ctx, p, id, fire)
	}
	if err != nil {
		return "", fmt.Errorf("trigger schedule %.140q: %w", name, err)
	}
	return schedule.RunOf(name, fire), nil
}

// DeleteSchedule removes a schedule with its history. Its runs stay; fires that wait are dropped. Where a keeper is
// just starting a run, it waits for that, about ten seconds if the keeper has stopped in the middle. The error wraps
// ErrScheduleNotFound when there is none. A schedule of the same name may be made afterwards.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	p, id, err := c.locateSchedule(name)
	if err == nil {
		runner := schedule.NewRunner(c.session, false)
		defer runner.Close()
		err = runner.Delete(ctx, p, id)
	}
	if err != nil {
		return fmt.Errorf("delete schedule %.140q: %w", name, err)
	}
	return nil
}
