package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
)

// ErrNoTimes is returned by ScheduleRef.Backfill for an interval in which the timetable has no time.
var ErrNoTimes = schedule.ErrNoTimes

// maxScheduleTimes is the most times of one call of ScheduleRef.Next and ScheduleConfig.Times.
const maxScheduleTimes = 1000

// Times returns the first n times of the timetable after a time, fewer if it ends before, without jitter, so that a
// timetable can be checked before it is scheduled. n is 0 to 1,000. The error matches ErrInvalid and joins all faults
// of the timetable.
func (c ScheduleConfig) Times(after time.Time, n int) ([]time.Time, error) {
	if err := errors.Join(append(c.checkTimes(), checkTimeCount(n))...); err != nil {
		return nil, err
	}
	times, err := timetable.New(timetable.Spec{
		Cron: c.Cron, Zone: c.TimeZone, Every: c.Every, Start: c.StartingAt, End: c.EndingAt, Jitter: c.Jitter,
	})
	if err != nil {
		return nil, invalid("%w", err)
	}
	var list []time.Time
	for at := times.Next(after); len(list) < n && !at.IsZero(); at = times.Next(at) {
		list = append(list, at)
	}
	return list, nil
}

func checkTimeCount(n int) error {
	if n < 0 || n > maxScheduleTimes {
		return invalid("%d times: must be 0 to %d", n, maxScheduleTimes)
	}
	return nil
}

// Next returns the next n times of the schedule, without jitter; fewer if it ends before. A paused schedule does not
// fire at them. n is 0 to 1,000.
func (s *ScheduleRef) Next(ctx context.Context, n int) ([]time.Time, error) {
	p, id, err := s.locate(ctx)
	if err == nil {
		err = checkTimeCount(n)
	}
	var r *schedule.Record
	if err == nil {
		r, _, err = schedule.Store{Session: s.client.session}.Read(ctx, p, id, 0)
	}
	if err == nil && r.State.Deleting {
		err = engine.ErrScheduleNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("next times of schedule %.140q: %w", s.name, err)
	}
	return r.Upcoming(n), nil
}

// Backfill makes keepers start runs for times of the timetable that have passed: those before the schedule was created,
// during a pause, or that were missed. It returns how many there are. The runs have the ids of their times, so a time
// that has its run already, from a former fire or backfill, gets no other one and is recorded as skipped. They have the
// flow and the input that the schedule has when they start, the time in its FireTimeField, and no jitter.
//
// Backfills of a schedule follow each other, independently of the fires of its timetable. A pause holds them up.
//
// The error wraps ErrInvalid for another overlap policy, or an interval that ends before it begins or has not passed;
// ErrNoTimes for an interval without times; or ErrScheduleFull for more than 1,000 times, and while ten backfills are
// not finished. Nothing has changed then. With WithRequestID the call can be repeated.
func (s *ScheduleRef) Backfill(
	ctx context.Context, b fabrictype.Backfill, opts ...ActionOption,
) (count int, err error) {
	by, err := s.client.actionOf(opts)
	b.Overlap = cmp.Or(b.Overlap, fabrictype.OverlapQueue)
	detail := fmt.Sprintf("%s to %s", b.From.UTC().Format(time.RFC3339), b.Until.UTC().Format(time.RFC3339))
	switch {
	case err != nil:
	case b.Overlap != fabrictype.OverlapQueue && b.Overlap != fabrictype.OverlapAllow:
		err = invalid("Overlap %.40q: must be %q or %q", b.Overlap, fabrictype.OverlapQueue, fabrictype.OverlapAllow)
	case b.From.IsZero() || b.Until.IsZero():
		err = invalid("From, Until: both must be set")
	case b.Until.Before(b.From):
		err = invalid("the interval %s: Until is before From", detail)
	default:
		if fault := cmp.Or(recordtext.CheckTime(b.From), recordtext.CheckTime(b.Until)); fault != nil {
			err = invalid("the interval: %w", fault)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("backfill schedule %.140q: %w", s.name, err)
	}
	err = s.change(ctx, by.actor, "backfill", detail,
		func(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID) error {
			schedules := schedule.Store{Session: s.client.session}
			return schedules.ChangeKept(ctx, p, id, func(r *schedule.Record) (_ bool, err error) {
				var known bool
				count, known, err = r.AddBackfill(b.From, b.Until, b.Overlap, by.request)
				return err == nil && !known, err
			})
		})
	return count, err
}

// ScheduleEdit has the fields of a schedule that ScheduleRef.Edit may change.
type ScheduleEdit struct {
	// Config is the config of the schedule, with defaults applied. StartPaused and PauseReason have no effect. The zero
	// Retention leaves the schedule's retention unchanged.
	Config ScheduleConfig
	// Input is the encoded input of its runs, JSON unless the flow has another codec.
	Input []byte
}

// Edit changes the schedule without the definition of its flow: edit gets its present config and input, and changes
// them. It may be called several times, when another program changes the schedule at the same time; its error is
// returned. As with Schedule, the history, the numbers and a pause of the schedule stay.
//
// The error wraps ErrInvalid, with all faults, or one of Start for runs that could not be started. Nothing has changed
// then. The types of the flow are not checked, but if it is published (Client.Publish), the input is checked against
// its schema.
func (s *ScheduleRef) Edit(ctx context.Context, edit func(*ScheduleEdit) error) (*fabrictype.Schedule, error) {
	fail := func(err error) (*fabrictype.Schedule, error) {
		return nil, fmt.Errorf("edit schedule %.140q: %w", s.name, err)
	}
	p, id, err := s.locate(ctx)
	if err == nil && edit == nil {
		err = errNoEdit
	}
	if err != nil {
		return fail(err)
	}
	runner := schedule.NewRunner(s.client.session, false)
	defer runner.Close()
	var edited *schedule.Draft
	draft := func(r *schedule.Record) (_ *schedule.Draft, err error) {
		edited, err = s.client.editDraft(ctx, s.name, r, edit)
		return edited, err
	}
	r, err := runner.Edit(ctx, p, id, draft, s.client.auditedSchedule(ctx, s.name, func() *schedule.Draft { return edited }))
	if err != nil {
		return fail(err)
	}
	d, err := s.client.schedules().Describe(ctx, r, nil)
	if err != nil {
		return fail(err)
	}
	return d, nil
}

var errNoEdit = invalid("the function is nil")

// editDraft returns the new form of a schedule.
func (c *Client) editDraft(
	ctx context.Context, name string, r *schedule.Record, edit func(*ScheduleEdit) error,
) (*schedule.Draft, error) {
	content, err := schedule.Store{Session: c.session}.ReadContent(ctx, r)
	if err != nil {
		return nil, err
	}
	e := ScheduleEdit{Config: configOf(&r.Spec), Input: slices.Clone(content.Input)}
	if err := edit(&e); err != nil {
		return nil, err
	}
	if err := c.checkEditedInput(ctx, content, e.Input); err != nil {
		return nil, err
	}
	draft, err := newDraft(c.session, name, e.Config, content.Flow, e.Input)
	if err != nil {
		return nil, err
	}
	draft.Spec.Carried = r.Spec.Carried
	if e.Config.Retention == (Retention{}) {
		draft.Spec.Retention = r.Spec.Retention
	}
	return draft, nil
}

// checkEditedInput checks a changed input against the published schema of the flow.
func (c *Client) checkEditedInput(ctx context.Context, content schedule.Compiled, input []byte) error {
	graph := content.Flow.Graph
	if string(input) == string(content.Input) || graph.Codec != submit.StoredJSONCodec {
		return nil
	}
	if err := activityspec.CheckJSON(input); err != nil {
		return invalid("Input: %w", err)
	}
	named, err := c.namedFlow(ctx, graph.Name)
	if errors.Is(err, enginecore.ErrFlowNotPublished) || errors.Is(err, engine.ErrInvalid) {
		return nil
	}
	if err != nil {
		return err
	}
	if named.Compiled.Hash != content.Flow.Hash {
		return nil // the schema belongs to another version
	}
	_, err = named.Check(graph.Name, input)
	return err
}

// configOf returns the config that a stored schedule was declared with, with defaults applied.
func configOf(s *schedule.Spec) ScheduleConfig {
	return ScheduleConfig{
		Cron: s.Cron, TimeZone: s.Zone, Every: time.Duration(s.EveryMS) * time.Millisecond,
		StartingAt: schedule.UnixTime(s.StartMS), EndingAt: schedule.UnixTime(s.EndMS),
		Jitter: time.Duration(s.JitterMS) * time.Millisecond, CatchUp: s.CatchUp(),
		Overlap:    s.Overlap,
		QueueLimit: s.QueueLimit, FireTimeField: s.FireField, Tags: maps.Clone(s.Tags), Actor: s.Creator,
	}
}
