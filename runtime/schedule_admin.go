package runtime

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
)

// locateSchedule finds where a schedule of the client's namespace lives.
func (c *Client) locateSchedule(
	ctx context.Context, name string,
) (keyspace.Partition, keyspace.ScheduleID, error) {
	if _, err := offered[engine.ScheduleCalls](ctx, c); err != nil {
		return keyspace.Partition{}, "", err
	}
	if err := activityspec.CheckName(name); err != nil {
		return keyspace.Partition{}, "", invalid("schedule: %w", err)
	}
	id := keyspace.ScheduleIDFor(c.session.Namespace, name)
	p, err := c.session.Core.Partitioning().SchedulePartition(id)
	return p, id, err
}

// changeSchedule performs an action on a schedule, with an entry in the audit log.
func (c *Client) changeSchedule(
	ctx context.Context, actor, do, name, detail string,
	act func(context.Context, keyspace.Partition, keyspace.ScheduleID) error,
) error {
	p, id, err := c.locateSchedule(ctx, name)
	var call interceptor.ClientCall
	if err == nil && c.isIntercepted() {
		var r *schedule.Record
		if r, _, err = (schedule.Store{Session: c.session}).Read(ctx, p, id, 0); err == nil {
			call.Flow = r.Spec.Flow
		}
	}
	if err == nil {
		err = c.auditedCall(ctx, fabrictype.AuditEntry{
			Actor: actor, Action: fabrictype.AuditAction(do + "_schedule"), Name: name, Detail: detail,
		}, call, func(ctx context.Context) error { return act(ctx, p, id) })
	}
	if err != nil {
		return fmt.Errorf("%s schedule %.140q: %w", do, name, err)
	}
	return nil
}

// PauseSchedule pauses a schedule: until ResumeSchedule, only TriggerSchedule starts runs. Open runs continue. A fire
// that came due before the pause waits, whether or not a keeper has seen it, and starts after ResumeSchedule, unless
// the overlap policy skips it or it is older than the catch-up window. Pausing a paused schedule changes the reason.
// The error wraps ErrScheduleNotFound when the schedule does not exist.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) error {
	if err := engine.CheckReason(reason); err != nil {
		return fmt.Errorf("pause schedule %.140q: %w", name, err)
	}
	return c.changeSchedule(ctx, c.actorName(), "pause", name, reason,
		func(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
			return schedule.Store{Session: c.session}.Pause(ctx, p, id, reason)
		})
}

// ResumeSchedule ends the pause of a schedule. Fires that waited when the pause began are started under the overlap
// policy. Fires that came due during the pause are not made up; the next fire is the first one after the call, by the
// engine's clock. Resuming a schedule that is not paused is not an error.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	return c.changeSchedule(ctx, c.actorName(), "resume", name, "",
		func(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
			return schedule.Store{Session: c.session}.ChangeKept(ctx, p, id,
				func(r *schedule.Record) (bool, error) { return r.Resume(), nil })
		})
}

// TriggerSchedule fires a schedule now, by the engine's clock, also while it is paused or after its end, and returns
// the id of the run. On return, the run was started, or waits for the end of the previous run if the overlap policy
// requires it. The timetable does not change.
//
// The error wraps ErrScheduleNotFound; ErrScheduleFull when the maximum number of fires waits; or ErrFireSkipped when
// the overlap policy starts nothing because a run is open. If the call is interrupted after the fire was recorded, a
// keeper starts the run. With WithRequestID it can be repeated, and returns the same run.
func (c *Client) TriggerSchedule(ctx context.Context, name string, opts ...ActionOption) (runID string, err error) {
	by, err := c.actionOf(opts)
	if err != nil {
		return "", fmt.Errorf("trigger schedule %.140q: %w", name, err)
	}
	var fire schedule.PendingFire
	err = c.changeSchedule(ctx, by.actor, "trigger", name, "",
		func(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
			schedules := schedule.Store{Session: c.session}
			err := schedules.ChangeKept(ctx, p, id, func(r *schedule.Record) (_ bool, err error) {
				var known bool
				fire, known, err = r.Trigger(by.request)
				return err == nil && !known, err
			})
			if err != nil {
				return err
			}
			runner := schedule.NewRunner(c.session, false)
			defer runner.Close()
			return runner.StartTriggered(ctx, p, id, fire)
		})
	if err != nil {
		return "", err
	}
	return schedule.RunOf(name, fire), nil
}

// DeleteSchedule deletes a schedule and its history. Fires that wait are dropped; runs are kept. If a keeper is
// starting a run of the schedule, DeleteSchedule waits until the run was started, or for about ten seconds if that
// keeper stopped in between. Afterwards, the name can be used again. The error wraps ErrScheduleNotFound when the
// schedule does not exist.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.changeSchedule(ctx, c.actorName(), "delete", name, "",
		func(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
			runner := schedule.NewRunner(c.session, false)
			defer runner.Close()
			return runner.Delete(ctx, p, id)
		})
}
