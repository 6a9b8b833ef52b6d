package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
)

// Errors of schedules, for errors.Is.
var (
	// ErrScheduleFull is returned by ScheduleRef.Trigger when the maximum number of fires waits to be started.
	ErrScheduleFull = schedule.ErrScheduleFull
	// ErrFireSkipped is returned by ScheduleRef.Trigger when the overlap policy starts nothing because a run is open.
	ErrFireSkipped = schedule.ErrFireSkipped
)

// Schedule creates a schedule, which starts a run of a flow with the given input at each time that the config
// determines. If the client's namespace has a schedule of that name, Schedule updates it; with the same arguments
// nothing changes, so a program can call Schedule whenever it starts. Any keeper starts the runs; it does not need the
// flow's definition. The rules for the name are those for names of flows.
//
// The id of a run is "name@time", with the time of the fire in RFC 3339 and UTC; Describe returns the schedule and the
// time. Each fire starts one run, however many keepers there are and wherever one of them stops. The engine's clock
// decides which fires are due.
//
// An update applies to runs that are not being started yet. Fires that are due or wait are kept. If the timing or the
// bounds changed, the next fire is the first one after the update, by the engine's clock. An update does not change
// whether the schedule is paused, its counts or its history.
//
// The error matches ErrInvalid and joins all faults of the name and the config. It wraps ErrTooLarge, or another error
// of Start, when the run could not be started, and ErrNotInContract in contract mode. Nothing was written then.
func Schedule[In, Out any](ctx context.Context, c *Client, name string, def *flow.Definition[In, Out], in In,
	config ScheduleConfig) (*fabrictype.Schedule, error) {
	fail := func(err error) (*fabrictype.Schedule, error) {
		return nil, fmt.Errorf("schedule %.140q: %w", name, err)
	}
	if err := errors.Join(usable(c, def), checkContext(ctx)); err != nil {
		return fail(err)
	}
	if _, err := c.session.Library("schedules"); err != nil {
		return fail(err)
	}
	input, err := def.EncodeInput(in)
	if err != nil {
		return fail(err)
	}
	compiled, err := c.compiled.Get(def)
	if err != nil {
		return fail(err)
	}
	draft, err := newDraft(c.session, name, config, compiled, input)
	if err != nil {
		return nil, err
	}
	if draft.Spec.FireField != "" {
		var probe In
		filled, err := schedule.WithFireTime(input, draft.Spec.FireField, time.Unix(0, 0))
		if err == nil {
			err = schedule.DecodeStrictly(filled, &probe)
		}
		if err != nil {
			return fail(invalid("FireTimeField %q: the input cannot take the time: %w", draft.Spec.FireField, err))
		}
	}
	made, err := c.declareSchedule(ctx, name, draft)
	if err != nil {
		return fail(err)
	}
	return made, nil
}

// Schedule is the function Schedule for the published flow with an input in JSON, without the flow's definition. The
// flow is as it was published last; a later publication does not change the schedule.
//
// The error is one of the function Schedule, or wraps a *fabrictype.ValueError with all faults of the input, which
// matches ErrInvalid. Nothing was written then.
func (f *FlowRef) Schedule(
	ctx context.Context, name string, input json.RawMessage, config ScheduleConfig,
) (*fabrictype.Schedule, error) {
	fail := func(err error) (*fabrictype.Schedule, error) {
		return nil, fmt.Errorf("schedule %.140q: %w", name, err)
	}
	if err := f.client.ready(ctx); err != nil {
		return fail(err)
	}
	if _, err := f.client.session.Library("schedules"); err != nil {
		return fail(err)
	}
	named, err := f.client.namedFlow(ctx, f.name)
	if err != nil {
		return fail(fmt.Errorf("flow %q: %w", f.name, err))
	}
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	compact, err := named.Check(f.name, input)
	if err != nil {
		return fail(err)
	}
	draft, err := newDraft(f.client.session, name, config, named.Compiled, compact)
	if err != nil {
		return nil, err
	}
	made, err := f.client.declareSchedule(ctx, name, draft)
	if err != nil {
		return fail(err)
	}
	return made, nil
}

// declareSchedule stores a schedule that was checked, with an entry in the audit log.
func (c *Client) declareSchedule(
	ctx context.Context, name string, draft *schedule.Draft,
) (*fabrictype.Schedule, error) {
	var err error
	if draft.Spec.Carried, err = c.session.Carried(ctx); err != nil {
		return nil, err
	}
	runner := schedule.NewRunner(c.session, false)
	defer runner.Close()
	r, err := runner.Declare(ctx, draft, c.auditedSchedule(ctx, name, func() *schedule.Draft { return draft }))
	if err != nil {
		return nil, err
	}
	return c.schedules().Describe(ctx, r, nil)
}

// auditedSchedule returns a function that stores a draft of a schedule with an entry in the audit log.
func (c *Client) auditedSchedule(
	ctx context.Context, name string, draft func() *schedule.Draft,
) func(save func() error) error {
	entry := fabrictype.AuditEntry{Actor: c.actorName(), Action: auditlink.SetSchedule, Name: name}
	return func(save func() error) error {
		call := interceptor.ClientCall{Flow: draft().Spec.Flow, Input: draft().Content.Input}
		return c.auditedCall(ctx, entry, call, func(context.Context) error { return save() })
	}
}

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
			Actor: actor, Action: do + "_schedule", Name: name, Detail: detail,
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
