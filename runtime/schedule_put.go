package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
)

// scheduleDraft is a schedule that was declared and checked.
type scheduleDraft struct {
	spec    scheduleSpec
	times   *timetable.Timetable
	content scheduleContent
	paused  bool
	reason  string
}

// newDraft checks a declaration. The error joins what is wrong with it.
func newDraft(e *session, name string, timing Timing, compiled *compiledFlow, input []byte, opts []ScheduleOption) (*scheduleDraft, error) {
	c := scheduleConfig{spec: scheduleSpec{
		Version: scheduleVersion, Namespace: string(e.namespace), Name: name, Flow: compiled.graph.Name,
		GraphHash: compiled.hash, InputHash: hashInput(input), Cron: timing.cron, Zone: timing.zone,
		Overlap: OverlapSkip, CatchUpMS: DefaultCatchUp.Milliseconds(), Creator: "schedule",
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
	return &scheduleDraft{c.spec, times, scheduleContent{compiled.definition, input}, c.paused, c.reason}, nil
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
	case OverlapQueue:
		if spec.QueueLimit == 0 {
			spec.QueueLimit = DefaultQueueLimit
		}
		if spec.QueueLimit < 1 || spec.QueueLimit > MaxQueueLimit {
			fault(fmt.Errorf("queue limit %d: must be between 1 and %d", spec.QueueLimit, MaxQueueLimit))
		}
	case OverlapSkip, OverlapCancelPrevious, OverlapAllow:
		if spec.QueueLimit != 0 {
			fault(fmt.Errorf("queue limit %d: only the overlap policy %q has a queue", spec.QueueLimit, OverlapQueue))
		}
	default:
		fault(fmt.Errorf("overlap policy %.40q: must be %s, %s, %s or %s", spec.Overlap, OverlapSkip, OverlapQueue,
			OverlapCancelPrevious, OverlapAllow))
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

// putSchedule makes or changes a schedule.
func (c *Client) putSchedule(ctx context.Context, draft *scheduleDraft) (*ScheduleDescription, error) {
	id := draft.spec.id()
	p, err := c.session.core.Partitioning().SchedulePartition(id)
	if err != nil {
		return nil, err
	}
	for {
		r, _, err := c.session.readSchedule(ctx, p, id, 0)
		switch {
		case errors.Is(err, ErrScheduleNotFound):
			draft.create(r)
		case err != nil:
			return nil, err
		case r.state.Deleting:
			if err := c.finishDelete(ctx, p, id); err != nil {
				return nil, err
			}
			continue
		case !draft.change(r):
			return c.describeSchedule(ctx, r, nil)
		}
		err = c.session.saveSchedule(ctx, r, &draft.content, true)
		if errors.Is(err, enginecore.ErrScheduleChanged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return c.describeSchedule(ctx, r, nil)
	}
}

// create makes a record of a schedule that there was not.
func (d *scheduleDraft) create(r *scheduleRecord) {
	now := r.now.UnixMilli()
	r.spec, r.times = d.spec, d.times
	r.state = scheduleState{CreatedAt: now, UpdatedAt: now, Plan: 1, Plans: []int{1}}
	if d.paused {
		r.state.PausedAt, r.state.PauseReason = now, d.reason
	}
	r.planNext()
}

// change brings a record up to date and tells whether it was not.
func (d *scheduleDraft) change(r *scheduleRecord) bool {
	before, _ := json.Marshal(&r.spec)
	after, _ := json.Marshal(&d.spec)
	if slices.Equal(before, after) {
		return false
	}
	same := r.spec.sameTimes(&d.spec)
	r.spec, r.times = d.spec, d.times
	r.state.UpdatedAt = r.now.UnixMilli()
	r.state.Plan = slices.Max(r.state.Plans) + 1
	r.state.Plans = append(r.state.Plans, r.state.Plan)
	if !same {
		r.state.Fired = nil // they are times of another timetable
		r.planNext()
	}
	r.urgent = true
	return true
}
