package runtime

import (
	"cmp"
	"errors"
	"maps"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/schedule"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// ScheduleConfig configures a schedule. Cron or Every must be set; the zero values of the other fields are good for
// most schedules.
type ScheduleConfig struct {
	// Cron is an expression of five fields (minute, hour, day of month, month, day of week), or one of @hourly, @daily,
	// @weekly, @monthly and @yearly, of at most 256 bytes. It excludes Every.
	//
	// Where the clock of the time zone is changed, an expression that names its hours, such as "30 2 * * *", fires once
	// for each time of day: a time that the clock leaves out fires when it has jumped, one that comes twice fires the
	// first time. Any other expression, such as "*/30 * * * *", goes with the passage of time: it fires whenever the
	// clock shows what it matches.
	Cron string
	// TimeZone is the time zone of Cron, by its name in the IANA database, such as "Europe/Berlin". Defaults to UTC.
	TimeZone string
	// Every is the interval between fires, 1 s to ten years in whole milliseconds, counted from StartingAt, or without
	// it from the beginning of 1970 in UTC: every hour is on the hour. It does not depend on when the schedule was
	// made. It excludes Cron.
	Every time.Duration
	// StartingAt is the earliest time of a fire, EndingAt the latest. What lies before the schedule was made is not
	// made up. A schedule that has ended stays until it is deleted. Each defaults to no bound.
	StartingAt, EndingAt time.Time
	// Jitter delays each fire by less than this, at most an hour and less than Every, in whole milliseconds, so that
	// schedules of one time do not start all at once. The delay derives from the schedule's name and the fire's time:
	// it is the same on every keeper. Defaults to none.
	Jitter time.Duration
	// CatchUp is how far back fires are made up that nobody started in time because no keeper ran or the engine was
	// away: 10 s to 366 days in whole milliseconds, and at most 100 fires. They are started under the overlap policy
	// like others, the oldest first; older ones count as missed. Defaults to 1 h.
	CatchUp time.Duration
	// Overlap is what becomes of a fire while the run before is open. Defaults to OverlapSkip.
	Overlap OverlapPolicy
	// QueueLimit is the number of fires that wait under OverlapQueue, 1 to 100. Other policies have no queue and no
	// limit. Defaults to 10.
	QueueLimit int
	// StartPaused makes a new schedule paused until Client.ResumeSchedule. A schedule that exists stays as it is in
	// this respect. PauseReason says why, as in Client.PauseSchedule. Defaults to false.
	StartPaused bool
	PauseReason string

	// FireTimeField is a top-level field of the input into which the time of the fire is written (RFC 3339, in UTC).
	// The input must be a JSON object. Defaults to none.
	FireTimeField string
	// Tags are attached to the runs of the schedule, as WithTag attaches them, beside those of the flow and
	// "flowfabric.schedule", which has the schedule's name. Defaults to none.
	Tags map[string]string
	// Retention is how long the runs of the schedule are kept after they ended. Each outcome without a time defaults to
	// what the flow says with flow.Retention, or else to OpenConfig.Retention.
	Retention Retention
	// Actor says who made the schedule, for the record of its runs, as WithActor says who starts a run. Defaults to
	// "schedule".
	Actor string
}

const (
	// minCatchUp and maxCatchUp bound ScheduleConfig.CatchUp. What is not older than the first is never missed, since a
	// keeper may be as late as that.
	minCatchUp     = 10 * time.Second
	maxCatchUp     = 366 * 24 * time.Hour
	defaultCatchUp = time.Hour
	// maxQueueLimit bounds ScheduleConfig.QueueLimit.
	maxQueueLimit     = 100
	defaultQueueLimit = 10
)

// withDefaults returns the config with its defaults in place of zero values.
func (c ScheduleConfig) withDefaults() ScheduleConfig {
	c.CatchUp = cmp.Or(c.CatchUp, defaultCatchUp)
	c.Overlap = cmp.Or(c.Overlap, OverlapSkip)
	if c.Overlap == OverlapQueue {
		c.QueueLimit = cmp.Or(c.QueueLimit, defaultQueueLimit)
	}
	c.Actor = cmp.Or(c.Actor, "schedule")
	return c
}

// check returns all faults of a config with defaults for the runs of a flow, joined, but for those of the timetable.
func (c ScheduleConfig) check(flow *submit.CompiledFlow) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, invalid(format, args...)) }
	for _, field := range []struct {
		name  string
		value time.Duration
	}{{"Every", c.Every}, {"Jitter", c.Jitter}, {"CatchUp", c.CatchUp}} {
		if field.value%time.Millisecond != 0 {
			fault("%s %s: must be whole milliseconds", field.name, field.value)
		}
	}
	if c.CatchUp < minCatchUp || c.CatchUp > maxCatchUp {
		fault("CatchUp %s: must be %s to %s", c.CatchUp, minCatchUp, maxCatchUp)
	}
	switch c.Overlap {
	case OverlapQueue:
		if c.QueueLimit < 1 || c.QueueLimit > maxQueueLimit {
			fault("QueueLimit %d: must be 1 to %d", c.QueueLimit, maxQueueLimit)
		}
	case OverlapSkip, OverlapCancelPrevious, OverlapAllow:
		if c.QueueLimit != 0 {
			fault("QueueLimit %d: must be 0 unless Overlap is %q", c.QueueLimit, OverlapQueue)
		}
	default:
		fault("Overlap %.40q: must be %q, %q, %q or %q", c.Overlap, OverlapSkip, OverlapQueue, OverlapCancelPrevious,
			OverlapAllow)
	}
	if c.TimeZone != "" && c.Cron == "" {
		fault("TimeZone %.80q: must be empty without Cron", c.TimeZone)
	}
	if c.PauseReason != "" && !c.StartPaused {
		fault("PauseReason %.40q: must be empty unless StartPaused is set", c.PauseReason)
	}
	if c.FireTimeField != "" && flow.Graph.Codec != submit.StoredJSONCodec {
		fault("FireTimeField %q: the input must be JSON, and is %s", c.FireTimeField, flow.Graph.Codec)
	}
	if _, err := submit.TagsOf(flow, c.Tags); err != nil {
		fault("Tags: %w", err)
	}
	if err := c.Retention.keep().Check(); err != nil {
		fault("Retention: %w", err)
	}
	faults = append(faults, engine.CheckText("PauseReason", c.PauseReason, engine.MaxReason),
		engine.CheckText("Actor", c.Actor, engine.MaxActor))
	return errors.Join(faults...)
}

// spec returns the stored form of a config with defaults, for a schedule of the session's namespace.
func (c ScheduleConfig) spec(e *engine.Session, name string, flow *submit.CompiledFlow, input []byte) schedule.Spec {
	spec := schedule.Spec{
		Version: schedule.Version, Namespace: string(e.Namespace), Name: name,
		Flow: flow.Graph.Name, GraphHash: flow.Hash, InputHash: submit.HashInput(input),
		Cron: c.Cron, Zone: c.TimeZone, EveryMS: c.Every.Milliseconds(), JitterMS: c.Jitter.Milliseconds(),
		Overlap: schedule.OverlapPolicy(c.Overlap), QueueLimit: c.QueueLimit, CatchUpMS: c.CatchUp.Milliseconds(),
		Retention: submit.RetentionOf(e.Keep, mergeKeep(c.Retention.keep(), flow.Graph.Keep)),
		FireField: c.FireTimeField, Creator: c.Actor,
	}
	if len(c.Tags) > 0 {
		spec.Tags = maps.Clone(c.Tags)
	}
	if !c.StartingAt.IsZero() {
		spec.StartMS = c.StartingAt.UnixMilli()
	}
	if !c.EndingAt.IsZero() {
		spec.EndMS = c.EndingAt.UnixMilli()
	}
	return spec
}

// newDraft checks a declaration. The error joins what is wrong with it.
func newDraft(e *engine.Session, name string, config ScheduleConfig, flow *submit.CompiledFlow,
	input []byte) (*schedule.Draft, error) {
	config = config.withDefaults()
	faults := []error{config.check(flow)}
	if err := activityspec.CheckName(name); err != nil {
		faults = append(faults, invalid("%w", err))
	}
	spec := config.spec(e, name, flow, input)
	var times *timetable.Timetable
	if config.Cron == "" && config.Every == 0 {
		faults = append(faults, invalid("Cron, Every: one of them must be set"))
	} else {
		var err error
		if times, err = spec.Timetable(); err != nil {
			faults = append(faults, invalid("%w", err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	// What the engine would not take is found now, not when it fires.
	fire := schedule.PendingFire{At: time.Now().UnixMilli(), Triggered: true}
	if _, err := schedule.PlanFire(e, &spec, flow, input, 0, fire); err != nil {
		return nil, err
	}
	return &schedule.Draft{
		Spec: spec, Times: times, Content: schedule.Content{Definition: flow.Definition, Input: input},
		Paused: config.StartPaused, Reason: config.PauseReason,
	}, nil
}

// mergeKeep is own where it says something, and else the other.
func mergeKeep(own, other flowgraph.Keep) flowgraph.Keep {
	for _, outcome := range flowgraph.Outcomes() {
		if own.For(outcome) == 0 && other.For(outcome) != 0 {
			own = own.With(other.For(outcome), outcome)
		}
	}
	return own
}
