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

// ScheduleRef refers to one schedule by its name. Client.Schedule returns one. It holds no state of the schedule: each
// call queries the engine, in the namespace of the client. It is safe for concurrent use, as long as its client is
// open.
//
// The error of every call wraps ErrNotFound when the schedule does not exist, ErrInvalid for a name that no
// schedule can have, and in contract mode ErrNotInContract.
type ScheduleRef struct {
	client *Client
	name   string
}

// Schedule returns a reference to a schedule. It sends nothing, and the schedule need not exist.
func (c *Client) Schedule(name string) *ScheduleRef { return &ScheduleRef{client: c, name: name} }

// locate finds where the schedule is stored.
func (s *ScheduleRef) locate(ctx context.Context) (keyspace.Partition, keyspace.ScheduleID, error) {
	if _, err := library(ctx, s.client, "schedules"); err != nil {
		return keyspace.Partition{}, "", err
	}
	if err := activityspec.CheckName(s.name); err != nil {
		return keyspace.Partition{}, "", invalid("schedule: %w", err)
	}
	id := keyspace.ScheduleIDFor(s.client.session.Namespace, s.name)
	p, err := s.client.session.Core.Partitioning().SchedulePartition(id)
	return p, id, err
}

// change performs an action on the schedule, with an entry in the audit log.
func (s *ScheduleRef) change(
	ctx context.Context, actor, do, detail string,
	act func(context.Context, keyspace.Partition, keyspace.ScheduleID) error,
) error {
	c, name := s.client, s.name
	p, id, err := s.locate(ctx)
	var call interceptor.ClientCall
	if err == nil && c.isIntercepted() {
		var r *schedule.Record
		if r, _, err = (schedule.Store{Session: c.session}).Read(ctx, p, id, 0); err == nil {
			call.Flow = r.Spec.Flow
		}
	}
	if err == nil {
		err = c.auditedCall(ctx, fabrictype.AuditEntry{
			Actor: actor, Action: string(do + "_schedule"), Name: name, Detail: detail,
		}, call, func(ctx context.Context) error { return act(ctx, p, id) })
	}
	if err != nil {
		return fmt.Errorf("%s schedule %.140q: %w", do, name, err)
	}
	return nil
}

// Pause pauses the schedule: until Resume, only Trigger starts runs. Open runs continue. A fire that came due before
// the pause waits, whether or not a keeper has seen it, and starts after Resume, unless the overlap policy skips it or
// it is older than the catch-up window. Pausing a paused schedule changes the reason.
func (s *ScheduleRef) Pause(ctx context.Context, reason string) error {
	if err := engine.CheckReason(reason); err != nil {
		return fmt.Errorf("pause schedule %.140q: %w", s.name, err)
	}
	return s.change(ctx, s.client.actorName(), "pause", reason,
		func(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
			return schedule.Store{Session: s.client.session}.Pause(ctx, p, id, reason)
		})
}

// Resume ends the pause of the schedule. Fires that waited when the pause began are started under the overlap policy.
// Fires that came due during the pause are not made up; the next fire is the first one after the call, by the engine's
// clock. Resuming a schedule that is not paused is not an error.
func (s *ScheduleRef) Resume(ctx context.Context) error {
	return s.change(ctx, s.client.actorName(), "resume", "",
		func(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
			return schedule.Store{Session: s.client.session}.ChangeKept(ctx, p, id,
				func(r *schedule.Record) (bool, error) { return r.Resume(), nil })
		})
}

// Trigger fires the schedule now, by the engine's clock, also while it is paused or after its end, and returns the id
// of the run. On return, the run was started, or waits for the end of the previous run if the overlap policy requires
// it. The timetable does not change.
//
// The error wraps ErrScheduleFull when the maximum number of fires waits, or ErrFireSkipped when the overlap policy
// starts nothing because a run is open. If the call is interrupted after the fire was recorded, a keeper starts the
// run. With WithRequestID it can be repeated, and returns the same run.
func (s *ScheduleRef) Trigger(ctx context.Context, opts ...ActionOption) (runID string, err error) {
	by, err := s.client.actionOf(opts)
	if err != nil {
		return "", fmt.Errorf("trigger schedule %.140q: %w", s.name, err)
	}
	var fire schedule.PendingFire
	err = s.change(ctx, by.actor, "trigger", "",
		func(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
			schedules := schedule.Store{Session: s.client.session}
			err := schedules.ChangeKept(ctx, p, id, func(r *schedule.Record) (_ bool, err error) {
				var known bool
				fire, known, err = r.Trigger(by.request)
				return err == nil && !known, err
			})
			if err != nil {
				return err
			}
			runner := schedule.NewRunner(s.client.session, false)
			defer runner.Close()
			return runner.StartTriggered(ctx, p, id, fire)
		})
	if err != nil {
		return "", err
	}
	return schedule.RunOf(s.name, fire), nil
}

// Delete deletes the schedule and its history. Fires that wait are dropped; runs are kept. If a keeper is starting a
// run of the schedule, Delete waits until the run was started, or for about ten seconds if that keeper stopped in
// between. Afterwards, the name can be used again.
func (s *ScheduleRef) Delete(ctx context.Context) error {
	return s.change(ctx, s.client.actorName(), "delete", "",
		func(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
			runner := schedule.NewRunner(s.client.session, false)
			defer runner.Close()
			return runner.Delete(ctx, p, id)
		})
}
