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
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
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
