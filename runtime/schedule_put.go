package runtime

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/schedule"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

const (
	// defaultCatchUp is how far back fires are made up that nobody started in time, unless the schedule says otherwise.
	defaultCatchUp = time.Hour
	// defaultQueueLimit is the number of fires that wait under OverlapQueue, unless the schedule says otherwise.
	defaultQueueLimit = 10
)

// newDraft checks a declaration. The error joins what is wrong with it.
func newDraft(
	e *engine.Session, name string, timing ScheduleTiming, compiled *submit.CompiledFlow, input []byte,
	opts []ScheduleOption,
) (*schedule.Draft, error) {
	c := scheduleConfig{spec: schedule.Spec{
		Version: schedule.Version, Namespace: string(e.Namespace), Name: name, Flow: compiled.Graph.Name,
		GraphHash: compiled.Hash, InputHash: submit.HashInput(input), Cron: timing.cron, Zone: timing.zone,
		Overlap: schedule.OverlapSkip, CatchUpMS: defaultCatchUp.Milliseconds(), Creator: "schedule",
	}}
	if err := apply(&c, opts); err != nil {
		c.faults = append(c.faults, err)
	}
	if timing.cron == "" {
		c.spec.EveryMS = wholeMilliseconds(&c, "interval", timing.every)
	}
	times := c.check(compiled.Graph)
	if err := errors.Join(c.faults...); err != nil {
		return nil, invalid("schedule: %w", err)
	}
	c.spec.Retention = submit.RetentionOf(e.Keep, mergeKeep(c.keep, compiled.Graph.Keep))
	// What the engine would not take is found now, not when it fires.
	if _, err := schedule.PlanFire(e, &c.spec, compiled, input, 0,
		schedule.PendingFire{At: time.Now().UnixMilli(), Triggered: true}); err != nil {
		return nil, err
	}
	return &schedule.Draft{
		Spec: c.spec, Times: times, Content: schedule.Content{Definition: compiled.Definition, Input: input},
		Paused: c.paused, Reason: c.reason,
	}, nil
}

// check adds what is wrong to the faults, and gives the times.
func (c *scheduleConfig) check(g *flowgraph.Graph) *timetable.Timetable {
	spec := &c.spec
	fault := func(err error) {
		if err != nil {
			c.faults = append(c.faults, err)
		}
	}
	fault(activityspec.CheckName(spec.Name))
	var times *timetable.Timetable
	var err error
	if spec.Cron == "" && spec.EveryMS == 0 {
		fault(fmt.Errorf("neither a cron expression nor an interval of at least %s", minInterval))
	} else {
		times, err = spec.Timetable()
		fault(err)
	}
	switch spec.Overlap {
	case schedule.OverlapQueue:
		if spec.QueueLimit == 0 {
			spec.QueueLimit = defaultQueueLimit
		}
		if spec.QueueLimit < 1 || spec.QueueLimit > maxQueueLimit {
			fault(fmt.Errorf("queue limit %d: must be between 1 and %d", spec.QueueLimit, maxQueueLimit))
		}
	case schedule.OverlapSkip, schedule.OverlapCancelPrevious, schedule.OverlapAllow:
		if spec.QueueLimit != 0 {
			fault(fmt.Errorf("queue limit %d: only the overlap policy %q has a queue", spec.QueueLimit,
				schedule.OverlapQueue))
		}
	default:
		fault(fmt.Errorf("overlap policy %.40q: must be %s, %s, %s or %s", spec.Overlap, schedule.OverlapSkip,
			schedule.OverlapQueue,
			schedule.OverlapCancelPrevious, schedule.OverlapAllow))
	}
	if window := spec.CatchUp(); window < minCatchUp || window > maxCatchUp {
		fault(fmt.Errorf("catch-up window %s: must be between %s and %s", window, minCatchUp, maxCatchUp))
	}
	fault(c.keep.Check())
	fault(engine.CheckReason(c.reason))
	fault(engine.CheckText("creator", spec.Creator, engine.MaxActor))
	if spec.FireField != "" && g.Codec != submit.StoredJSONCodec {
		fault(fmt.Errorf("fire time into field %q: the input is %s, not JSON", spec.FireField, g.Codec))
	}
	return times
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
