package runtime

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
)

// newDraft checks a declaration. The error joins what is wrong with it.
func newDraft(e *session, name string, timing Timing, compiled *compiledFlow, input []byte, opts []ScheduleOption) (*scheduleDraft, error) {
	c := scheduleConfig{spec: scheduleSpec{
		Version: scheduleVersion, Namespace: string(e.namespace), Name: name, Flow: compiled.graph.Name,
		GraphHash: compiled.hash, InputHash: hashInput(input), Cron: timing.cron, Zone: timing.zone,
		Overlap: overlapSkip, CatchUpMS: DefaultCatchUp.Milliseconds(), Creator: "schedule",
	}}
	if err := apply(&c, opts); err != nil {
		c.faults = append(c.faults, err)
	}
	if timing.cron == "" {
		c.spec.EveryMS = wholeMilliseconds(&c, "interval", timing.every)
	}
	times := c.check(compiled.graph)
	if err := errors.Join(c.faults...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchedule, err)
	}
	c.spec.Retention = retentionOf(e.keep, mergeKeep(c.keep, compiled.graph.Keep))
	// What the engine would not take is found now, not when it fires.
	if _, err := planFire(e, &c.spec, compiled, input, 0, pendingFire{At: time.Now().UnixMilli(), Triggered: true}); err != nil {
		return nil, err
	}
	return &scheduleDraft{
		spec: c.spec, times: times, content: scheduleContent{compiled.definition, input}, paused: c.paused, reason: c.reason,
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
		fault(fmt.Errorf("neither a cron expression nor an interval of at least %s", MinInterval))
	} else {
		times, err = spec.timetable()
		fault(err)
	}
	switch spec.Overlap {
	case overlapQueue:
		if spec.QueueLimit == 0 {
			spec.QueueLimit = DefaultQueueLimit
		}
		if spec.QueueLimit < 1 || spec.QueueLimit > MaxQueueLimit {
			fault(fmt.Errorf("queue limit %d: must be between 1 and %d", spec.QueueLimit, MaxQueueLimit))
		}
	case overlapSkip, overlapCancelPrevious, overlapAllow:
		if spec.QueueLimit != 0 {
			fault(fmt.Errorf("queue limit %d: only the overlap policy %q has a queue", spec.QueueLimit, overlapQueue))
		}
	default:
		fault(fmt.Errorf("overlap policy %.40q: must be %s, %s, %s or %s", spec.Overlap, overlapSkip, overlapQueue,
			overlapCancelPrevious, overlapAllow))
	}
	if window := spec.catchUp(); window < MinCatchUp || window > MaxCatchUp {
		fault(fmt.Errorf("catch-up window %s: must be between %s and %s", window, MinCatchUp, MaxCatchUp))
	}
	fault(c.keep.Check())
	fault(checkReason(c.reason))
	fault(checkText("creator", spec.Creator, MaxActor))
	if spec.FireField != "" && g.Codec != storedJSONCodec {
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
