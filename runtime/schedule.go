package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/schedule"
)

// Errors of schedules, for errors.Is.
var (
	// ErrScheduleNotFound is returned when there is no schedule of that name.
	ErrScheduleNotFound = schedule.ErrScheduleNotFound
	// ErrScheduleFull is returned by TriggerSchedule when as many fires wait to be started as may.
	ErrScheduleFull = schedule.ErrScheduleFull
	// ErrFireSkipped is returned by TriggerSchedule when the overlap policy starts nothing because a run is open.
	ErrFireSkipped = schedule.ErrFireSkipped
)

// OverlapPolicy says what becomes of a fire while the run that the schedule started last is open. Its text is part of
// the stored form.
type OverlapPolicy string

// The policies.
const (
	// OverlapSkip starts nothing for the fire. This is the default.
	OverlapSkip = OverlapPolicy(schedule.OverlapSkip)
	// OverlapQueue starts fires one after the other, each when the run before has ended. At most QueueLimit of them
	// wait; what comes while the queue is full is skipped.
	OverlapQueue = OverlapPolicy(schedule.OverlapQueue)
	// OverlapCancelPrevious cancels the run and starts the fire when it has ended. Of several fires that wait for that,
	// the last one is started and the others are skipped.
	OverlapCancelPrevious = OverlapPolicy(schedule.OverlapCancelPrevious)
	// OverlapAllow starts every fire at once.
	OverlapAllow = OverlapPolicy(schedule.OverlapAllow)
)

// Schedule makes a schedule that starts runs of a flow with an input, or changes the one of that name in the client's
// namespace: to call it again with the same arguments, at every start of a program, changes nothing. What starts the
// runs is any keeper; it needs not know the flow. The name has the form of a flow's name. The config says when it fires
// and how its runs are started; Cron or Every must be set.
//
// A run has the id "name@time", with the fire's time in RFC 3339 and UTC, and Describe tells the schedule and the time.
// Each fire starts one run, however many keepers there are and wherever one of them stops. The engine's clock decides
// what is due.
//
// A change counts for runs that are not being started yet. Fires that are due or wait are kept; where the timing or the
// bounds changed, the next fire is the first after the change, by the engine's clock. Whether the schedule is paused,
// its numbers and its history stay.
//
// The error joins all faults of the name and the config and matches ErrInvalid, or is ErrTooLarge and others of Start
// for what could not be started, and nothing has been written then; ErrNotInContract in contract mode.
func Schedule[In, Out any](ctx context.Context, c *Client, name string, def *flow.Definition[In, Out], in In,
	config ScheduleConfig) (*ScheduleDescription, error) {
	fail := func(err error) (*ScheduleDescription, error) {
		return nil, fmt.Errorf("schedule %.140q: %w", name, err)
	}
	if err := usable(c, def); err != nil {
		return fail(err)
	}
	if _, err := engine.Capability[engine.ScheduleCalls](c.session.Backend); err != nil {
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
		return fail(err)
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
	runner := schedule.NewRunner(c.session, false)
	defer runner.Close()
	r, err := runner.Declare(ctx, draft)
	if err != nil {
		return fail(err)
	}
	made, err := c.describeSchedule(ctx, r, nil)
	if err != nil {
		return fail(err)
	}
	return made, nil
}
