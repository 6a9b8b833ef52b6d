package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
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

// Limits of schedules.
const (
	// minInterval is the shortest interval between fires.
	minInterval = time.Second
	// minCatchUp and maxCatchUp bound CatchUp. What is not older than the first is never missed, since a keeper may be
	// as late as that.
	minCatchUp = 10 * time.Second
	maxCatchUp = 366 * 24 * time.Hour
	// maxQueueLimit bounds QueueLimit.
	maxQueueLimit = 100
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

// ScheduleTiming is when a schedule fires: Cron or Every.
type ScheduleTiming struct {
	cron, zone string
	every      time.Duration
}

// Cron fires by an expression of five fields (minute, hour, day of month, month, day of week), or one of @hourly,
// @daily, @weekly, @monthly and @yearly, in a time zone with a name of the IANA database; "" is UTC.
//
// Where the zone's clock is changed, an expression that names its hours, such as "30 2 * * *", fires once for each time
// of day: a time that the clock leaves out fires when it has jumped, one that comes twice fires the first time. Any
// other expression, such as "*/30 * * * *", goes with the passage of time: it fires whenever the clock shows what it
// matches.
func Cron(expression, zone string) ScheduleTiming {
	return ScheduleTiming{cron: expression, zone: zone}
}

// Every fires at fixed intervals of at least 1 s, counted from StartingAt, or without one from the beginning of
// 1970 in UTC: every hour is on the hour. An interval does not depend on when the schedule was made.
func Every(interval time.Duration) ScheduleTiming { return ScheduleTiming{every: interval} }

// ScheduleOption adjusts one call of Schedule.
type ScheduleOption func(*scheduleConfig)

type scheduleConfig struct {
	spec   schedule.Spec
	keep   flowgraph.Keep
	paused bool
	reason string
	faults []error
}

// OnOverlap is what becomes of a fire while the run before is open. Defaults to OverlapSkip.
func OnOverlap(p OverlapPolicy) ScheduleOption {
	return func(c *scheduleConfig) { c.spec.Overlap = schedule.OverlapPolicy(p) }
}

// QueueLimit is the number of fires that wait under OverlapQueue, 1 to 100. Defaults to 10.
func QueueLimit(n int) ScheduleOption { return func(c *scheduleConfig) { c.spec.QueueLimit = n } }

// CatchUp is how far back fires are made up that nobody started in time because no keeper ran or the engine was away,
// between 10 s and 366 days and at most 100 of them. They are started under the overlap policy like others, the oldest
// first; older ones count as missed. Defaults to 1 h.
func CatchUp(window time.Duration) ScheduleOption {
	return func(c *scheduleConfig) { c.spec.CatchUpMS = wholeMilliseconds(c, "catch-up window", window) }
}

// Jitter delays each fire by less than d, at most an hour and less than the interval, so that schedules of one time
// do not start all at once. The delay derives from the schedule's name and the fire's time: it is the same on every
// keeper.
func Jitter(d time.Duration) ScheduleOption {
	return func(c *scheduleConfig) { c.spec.JitterMS = wholeMilliseconds(c, "jitter", d) }
}

// StartingAt is the earliest time of a fire. What lies before the schedule was made is not made up.
func StartingAt(t time.Time) ScheduleOption {
	return func(c *scheduleConfig) { c.spec.StartMS = t.UnixMilli() }
}

// EndingAt is the latest time of a fire. A schedule that has ended stays until it is deleted.
func EndingAt(t time.Time) ScheduleOption {
	return func(c *scheduleConfig) { c.spec.EndMS = t.UnixMilli() }
}

// StartPaused makes a new schedule paused. A schedule that exists stays as it is in this respect.
func StartPaused(reason string) ScheduleOption {
	return func(c *scheduleConfig) { c.paused, c.reason = true, reason }
}

// RunRetention says how long runs of the schedule are kept after they ended in one of the outcomes, all of them when
// none is named. Defaults to what the flow says, or else the engine.
func RunRetention(keep time.Duration, outcomes ...flow.Outcome) ScheduleOption {
	return func(c *scheduleConfig) { c.keep = c.keep.With(keep, outcomes...) }
}

// RunTag attaches a tag to the runs of the schedule, beside those of the flow and "flowfabric.schedule", which has the
// schedule's name: see flow.Tag for what it may be.
func RunTag(key, value string) ScheduleOption {
	return func(c *scheduleConfig) {
		if c.spec.Tags == nil {
			c.spec.Tags = make(map[string]string)
		}
		c.spec.Tags[key] = value
	}
}

// FireTimeInto writes the time of the fire (RFC 3339, in UTC) into a top-level field of the input, which must be a JSON
// object.
func FireTimeInto(field string) ScheduleOption {
	return func(c *scheduleConfig) {
		c.spec.FireField = field
		if field == "" {
			c.faults = append(c.faults, errors.New("the name of the field for the fire time is empty"))
		}
	}
}

// ScheduledBy says who made the schedule, for the record of its runs, in at most 256 bytes without control characters.
// Defaults to "schedule".
func ScheduledBy(name string) ScheduleOption {
	return func(c *scheduleConfig) { c.spec.Creator = name }
}

func wholeMilliseconds(c *scheduleConfig, what string, d time.Duration) int64 {
	if d%time.Millisecond != 0 {
		c.faults = append(c.faults, fmt.Errorf("%s %s: must be whole milliseconds", what, d))
	}
	return d.Milliseconds()
}

// Schedule makes a schedule that starts runs of a flow with an input, or changes the one of that name in the client's
// namespace: to call it again with the same arguments, at every start of a program, changes nothing. What starts the
// runs is any keeper; it needs not know the flow. The name has the form of a flow's name.
//
// A run has the id "name@time", with the fire's time in RFC 3339 and UTC, and Describe tells the schedule and the time.
// Each fire starts one run, however many keepers there are and wherever one of them stops. The engine's clock decides
// what is due.
//
// A change counts for runs that are not being started yet. Fires that are due or wait are kept; where the timing or the
// bounds changed, the next fire is the first after the change, by the engine's clock. Whether the schedule is paused,
// its numbers and its history stay.
//
// The error matches ErrInvalid with everything that is wrong with the declaration, or ErrTooLarge and others of Start
// for what could not be started, and nothing has been written then; ErrNotInContract in contract mode.
func Schedule[In, Out any](
	ctx context.Context, c *Client, name string, timing ScheduleTiming, def *flow.Definition[In, Out], in In,
	opts ...ScheduleOption,
) (*ScheduleDescription, error) {
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
	draft, err := newDraft(c.session, name, timing, compiled, input, opts)
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
			return fail(invalid("schedule: fire time into field %q of the input: %w", draft.Spec.FireField, err))
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
