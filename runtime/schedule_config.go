package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
)

// ScheduleConfig configures a schedule. Cron or Every must be set; the zero values of the other fields suit most
// schedules.
type ScheduleConfig struct {
	// Cron is an expression of five fields (minute, hour, day of month, month, day of week), or one of @hourly, @daily,
	// @weekly, @monthly and @yearly, of at most 256 bytes. Set either Cron or Every.
	//
	// When the clock of the time zone changes, an expression with fixed hours, such as "30 2 * * *", fires once for
	// each time of day: a time that the change skips fires right after the change, and a time that occurs twice fires
	// the first time. Any other expression, such as "*/30 * * * *", fires whenever the clock shows a matching time.
	Cron string
	// TimeZone is the time zone of Cron, by its name in the IANA database, such as "Europe/Berlin". Defaults to UTC.
	TimeZone string
	// Every is the interval between fires, 1 s to ten years in whole milliseconds. It is counted from StartingAt or,
	// without that, from the beginning of 1970 in UTC, not from the creation of the schedule: every hour means on the
	// hour. Set either Cron or Every.
	Every time.Duration
	// StartingAt is the earliest time of a fire and EndingAt the latest. Times before the creation of the schedule are
	// not made up. A schedule that has ended stays until it is deleted. Each defaults to no bound.
	StartingAt, EndingAt time.Time
	// Jitter bounds the delay of each fire, so that schedules with the same times do not all start at once: at most an
	// hour and less than Every, in whole milliseconds. A fire is delayed by less than Jitter. The delay derives from
	// the name of the schedule and the time of the fire, so it is the same on every keeper. Defaults to none.
	Jitter time.Duration
	// CatchUp is how far back the keepers make up fires that were not started in time, because no keeper ran or the
	// engine was unavailable: 10 s to 366 days in whole milliseconds. At most 100 fires are made up, the oldest first,
	// under the overlap policy; earlier ones count as missed. Defaults to 1 h.
	CatchUp time.Duration
	// Overlap determines the treatment of a fire while the previous run is open. Defaults to OverlapSkip.
	Overlap fabrictype.OverlapPolicy
	// QueueLimit is the number of fires that may wait under OverlapQueue, 1 to 100. It cannot be set with other
	// policies. Defaults to 10.
	QueueLimit int
	// StartPaused creates the schedule paused, with PauseReason as for ScheduleRef.Pause, until
	// ScheduleRef.Resume. It does not change an existing schedule. Defaults to false.
	StartPaused bool
	PauseReason string

	// FireTimeField is a top-level field of the input that is set to the time of the fire (RFC 3339, in UTC). The input
	// must be a JSON object. Defaults to none.
	FireTimeField string
	// Tags are attached to the runs of the schedule, as by WithTag, in addition to the tags of the flow and to
	// "flowfabric.schedule", which has the name of the schedule. Defaults to none.
	Tags map[string]string
	// Retention is how long the runs of the schedule are kept after their end. Outcomes without a time default to
	// flow.Retention of the flow, or else to OpenConfig.Retention.
	Retention Retention
	// Actor is recorded as the actor that starts the runs, as by WithActor. Defaults to "schedule".
	Actor string
}

const (
	// minCatchUp and maxCatchUp bound ScheduleConfig.CatchUp. A fire that is not older than the minimum is never
	// missed, since a keeper may be as late as that.
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
	c.Overlap = cmp.Or(c.Overlap, fabrictype.OverlapSkip)
	if c.Overlap == fabrictype.OverlapQueue {
		c.QueueLimit = cmp.Or(c.QueueLimit, defaultQueueLimit)
	}
	c.Actor = cmp.Or(c.Actor, "schedule")
	return c
}

// check returns all faults of a config with defaults, for runs of a flow with this input, except faults of the
// timetable.
func (c ScheduleConfig) check(flow *submit.CompiledFlow, input []byte) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, invalid(format, args...)) }
	for _, field := range []struct {
		name  string
		value time.Duration
	}{{"Jitter", c.Jitter}, {"CatchUp", c.CatchUp}} {
		if field.value%time.Millisecond != 0 {
			fault("%s %s: must be whole milliseconds", field.name, field.value)
		}
	}
	if c.CatchUp < minCatchUp || c.CatchUp > maxCatchUp {
		fault("CatchUp %s: must be %s to %d days", c.CatchUp, minCatchUp, maxCatchUp/(24*time.Hour))
	}
	switch c.Overlap {
	case fabrictype.OverlapQueue:
		if c.QueueLimit < 1 || c.QueueLimit > maxQueueLimit {
			fault("QueueLimit %d: must be 1 to %d", c.QueueLimit, maxQueueLimit)
		}
	case fabrictype.OverlapSkip, fabrictype.OverlapCancelPrevious, fabrictype.OverlapAllow:
		if c.QueueLimit != 0 {
			fault("QueueLimit %d: must be 0 unless Overlap is %q", c.QueueLimit, fabrictype.OverlapQueue)
		}
	default:
		fault("Overlap %.40q: must be %q, %q, %q or %q", c.Overlap, fabrictype.OverlapSkip, fabrictype.OverlapQueue, fabrictype.OverlapCancelPrevious,
			fabrictype.OverlapAllow)
	}
	if c.TimeZone != "" && c.Cron == "" {
		fault("TimeZone %.80q: must be empty without Cron", c.TimeZone)
	}
	if c.PauseReason != "" && !c.StartPaused {
		fault("PauseReason %.40q: must be empty unless StartPaused is set", c.PauseReason)
	}
	if c.FireTimeField != "" && flow.Graph.Codec != submit.StoredJSONCodec {
		fault("FireTimeField %q: the input must be JSON, and is %s", c.FireTimeField, flow.Graph.Codec)
	} else if c.FireTimeField != "" {
		if _, err := schedule.WithFireTime(input, c.FireTimeField, time.Unix(0, 0)); err != nil {
			fault("FireTimeField %q: %w", c.FireTimeField, err)
		}
	}
	_, err := submit.TagsOf(flow, c.Tags)
	for _, tag := range flowgraph.Faults(err) {
		fault("Tags: %w: %s", tag.Kind, tag.Detail)
	}
	if err := c.Retention.keep().Check(); err != nil {
		fault("Retention: %w", err)
	}
	return append(faults, engine.CheckText("PauseReason", c.PauseReason, engine.MaxReason),
		engine.CheckText("Actor", c.Actor, engine.MaxActor))
}

// checkTimes returns the faults of the timetable. It has the durations as they are given, not in milliseconds.
func (c ScheduleConfig) checkTimes() (faults []error) {
	if c.Cron == "" && c.Every == 0 {
		return []error{invalid("Cron, Every: one of them must be set")}
	}
	_, err := timetable.New(timetable.Spec{
		Cron: c.Cron, Zone: c.TimeZone, Every: c.Every, Start: c.StartingAt, End: c.EndingAt, Jitter: c.Jitter,
	})
	for _, fault := range timetable.Faults(err) {
		faults = append(faults, invalid("%w", fault))
	}
	return faults
}

// spec returns the stored form of a config with defaults, for a schedule of the session's namespace.
func (c ScheduleConfig) spec(e *engine.Session, name string, flow *submit.CompiledFlow, input []byte) schedule.Spec {
	spec := schedule.Spec{
		Version: schedule.Version, Namespace: string(e.Namespace), Name: name,
		Flow: flow.Graph.Name, GraphHash: flow.Hash, InputHash: submit.HashInput(input),
		Cron: c.Cron, Zone: c.TimeZone, EveryMS: c.Every.Milliseconds(), JitterMS: c.Jitter.Milliseconds(),
		Overlap: fabrictype.OverlapPolicy(c.Overlap), QueueLimit: c.QueueLimit, CatchUpMS: c.CatchUp.Milliseconds(),
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

// newDraft checks a declaration. The error joins all faults; each begins with the name of the schedule.
func newDraft(e *engine.Session, name string, config ScheduleConfig, flow *submit.CompiledFlow,
	input []byte) (*schedule.Draft, error) {
	named := func(err error) error { return fmt.Errorf("schedule %.140q: %w", name, err) }
	config = config.withDefaults()
	var faults []error
	for _, fault := range append(config.check(flow, input), config.checkTimes()...) {
		if fault != nil {
			faults = append(faults, named(fault))
		}
	}
	if err := activityspec.CheckName(name); err != nil {
		faults = append(faults, named(invalid("%w", err)))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	spec := config.spec(e, name, flow, input)
	times, err := spec.Timetable()
	if err != nil {
		return nil, named(err)
	}
	// A fire that the engine would refuse is refused now, not when it is due.
	fire := schedule.PendingFire{At: time.Now().UnixMilli(), Triggered: true}
	if _, err := schedule.PlanFire(e, &spec, flow, input, 0, fire); err != nil {
		return nil, named(err)
	}
	return &schedule.Draft{
		Spec: spec, Times: times, Content: schedule.Content{Definition: flow.Definition, Input: input},
		Paused: config.StartPaused, Reason: config.PauseReason,
	}, nil
}

// mergeKeep returns own with its unset outcomes taken from other.
func mergeKeep(own, other flowgraph.Keep) flowgraph.Keep {
	for _, outcome := range flowgraph.Outcomes() {
		if own.For(outcome) == 0 && other.For(outcome) != 0 {
			own = own.With(other.For(outcome), outcome)
		}
	}
	return own
}
