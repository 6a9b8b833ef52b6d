package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// MaxBackfill bounds the times of one backfill, maxBackfills the backfills of a schedule that are not finished.
const (
	MaxBackfill  = 1000
	maxBackfills = 10
)

// ErrNoTimes reports a backfill of an interval that has no time of the timetable.
var ErrNoTimes = errors.New("the timetable has no time in the interval")

// Backfill is an interval whose times are started after they have passed. Its runs do not count for the overlap policy
// of the schedule, nor the runs of the timetable for the policy of the backfill. Times are Unix ms.
type Backfill struct {
	// Next is the next time to be started, Until the last one that may be.
	Next  int64 `json:"next"`
	Until int64 `json:"until"`
	// Overlap is OverlapQueue, by which a run starts when the one before has ended, or OverlapAllow.
	Overlap fabrictype.OverlapPolicy `json:"overlap"`
	// Last is the run that the backfill has started last; nil before the first.
	Last *StartedRun `json:"last,omitempty"`
}

// backfill returns the backfill that is worked on; nil if there is none, or the schedule is paused.
func (r *Record) backfill() *Backfill {
	if len(r.State.Backfills) == 0 || r.State.PausedAt != 0 || r.State.Deleting {
		return nil
	}
	return &r.State.Backfills[0]
}

// AddBackfill adds a backfill of the times from one time to another, both inclusive, and returns their number. A
// request that has an id adds one: when it comes again, known is true, and there is nothing to write. Otherwise the
// caller writes the record. The error wraps ErrNoTimes, engine.ErrInvalid for an interval that has
// not passed, or ErrScheduleFull for too many times or backfills.
func (r *Record) AddBackfill(
	from, until time.Time, overlap fabrictype.OverlapPolicy, request string,
) (count int, known bool, _ error) {
	if done := r.State.request(request); done != nil {
		return done.Count, true, nil
	}
	if until.After(r.now) {
		return 0, false, fmt.Errorf("%w: the interval must have passed: it ends at %s, and it is %s", engine.ErrInvalid,
			until.UTC().Format(time.RFC3339), r.now.UTC().Format(time.RFC3339))
	}
	if len(r.State.Backfills) >= maxBackfills {
		return 0, false, fmt.Errorf("%w: %d backfills are not finished", ErrScheduleFull, len(r.State.Backfills))
	}
	first := r.times.Next(from.Add(-time.Millisecond))
	for at := first; !at.IsZero() && !at.After(until); at = r.times.Next(at) {
		if count++; count > MaxBackfill {
			return 0, false, fmt.Errorf("%w: the interval has more than %d times", ErrScheduleFull, MaxBackfill)
		}
	}
	if count == 0 {
		return 0, false, ErrNoTimes
	}
	r.State.Backfills = append(r.State.Backfills,
		Backfill{Next: first.UnixMilli(), Until: until.UnixMilli(), Overlap: overlap})
	r.State.remember(DoneRequest{ID: request, Count: count})
	r.urgent = true
	return count, false, nil
}

// moveBackfills moves backfills on to times of a changed timetable. Those without any end.
func (r *Record) moveBackfills() {
	var left []Backfill
	for _, b := range r.State.Backfills {
		if b.advance(r.times.Next(UnixTime(b.Next - 1))) {
			left = append(left, b)
		}
	}
	r.State.Backfills = left
}

// advance sets the next time of the backfill. It returns false if it has no more.
func (b *Backfill) advance(next time.Time) bool {
	b.Next = next.UnixMilli()
	return !next.IsZero() && b.Next <= b.Until
}

// startBackfill starts the run of the next time of a backfill.
func (s *Runner) startBackfill(ctx context.Context, r *Record, b *Backfill, err error) (more bool, _ error) {
	if err != nil {
		return false, err
	}
	r.State.Serial++
	r.State.Waiting = append(r.State.Waiting, PendingFire{At: b.Next, Serial: r.State.Serial, Backfill: true})
	return s.start(ctx, r, len(r.State.Waiting)-1)
}

// awaitBackfill leaves a backfill until its last run has ended.
func (s *Runner) awaitBackfill(ctx context.Context, r *Record, b *Backfill) (more bool, err error) {
	last := *b.Last
	if err := s.store.save(ctx, r, nil, false); err != nil {
		return false, err
	}
	return s.watch(ctx, r, &last)
}

// waitsForRun reports whether a backfill waits for the end of its last run.
func (s Store) waitsForRun(ctx context.Context, r *Record, b *Backfill) (bool, error) {
	if b.Last == nil || b.Overlap == fabrictype.OverlapAllow {
		return false, nil
	}
	id, p, err := s.locateRun(r, b.Last)
	if err != nil {
		return false, err
	}
	reply, err := s.Session.Backend.FlowResult(ctx, enginerpc.FlowResultCall{Partition: p, FlowID: id})
	if errors.Is(err, enginecore.ErrFlowNotFound) {
		return false, nil
	}
	return err == nil && reply.ClosedAt.IsZero(), err
}

// locateRun returns flow id and partition of a run that the schedule has started.
func (s Store) locateRun(r *Record, run *StartedRun) (enginecore.FlowID, keyspace.Partition, error) {
	id := keyspace.FlowIDFor(keyspace.Namespace(r.Spec.Namespace), run.Flow, run.Run)
	p, err := s.Session.Core.FlowPartition(id)
	return id, p, err
}

// finishBackfill records the outcome of a fire of the first backfill, which proceeds to its next time. existed is
// whether the time had its run before, cause why it has none.
func (r *Record) finishBackfill(fire PendingFire, flowName string, existed bool, cause error) {
	entry := StoredFire{
		At: fire.At, Outcome: fabrictype.FireStarted, Flow: flowName, Run: RunOf(r.Spec.Name, fire), Backfill: true,
	}
	var last *StartedRun
	switch {
	case cause != nil:
		r.State.Failed++
		entry.Outcome, entry.Run, entry.Reason = fabrictype.FireFailed, "", cause.Error()
	case existed:
		r.State.Skipped++
		entry.Outcome, entry.Reason = fabrictype.FireSkipped, "the time has its run already"
	default:
		r.State.Started++
		last = &StartedRun{Flow: flowName, Run: entry.Run, At: fire.At}
	}
	r.note(entry)
	if len(r.State.Backfills) == 0 || r.State.Backfills[0].Next != fire.At {
		return // the timetable has been changed since
	}
	b := &r.State.Backfills[0]
	if last != nil {
		b.Last = last
	}
	if !b.advance(r.times.Next(UnixTime(fire.At))) {
		r.State.Backfills = r.State.Backfills[1:]
	}
}

// NextDue returns the time at which the schedule fires next, or if it is paused the first one of its timetable from now
// on; zero if there is none.
func (r *Record) NextDue() time.Time {
	due := UnixTime(r.State.Due)
	if r.State.Due == 0 || r.State.PausedAt == 0 || due.After(r.now) {
		return due
	}
	return r.times.Next(r.now)
}

// Upcoming returns the next times of the timetable that have not fired, at most n of them, without jitter.
func (r *Record) Upcoming(n int) []time.Time {
	var list []time.Time
	for at := r.NextDue(); len(list) < n && !at.IsZero(); at = r.times.Next(at) {
		if until, fired := r.State.firedUntil(at); fired {
			at = until
			continue
		}
		list = append(list, at)
	}
	return list
}

// ReadContent returns the definition and the input that the current revision of a schedule starts, with its compiled
// flow.
func (s Store) ReadContent(ctx context.Context, r *Record) (Compiled, error) {
	reply, err := s.Session.Core.ReadSchedulePlan(ctx, enginerpc.ReadSchedulePlanCall{
		Partition: r.part, ScheduleID: r.id, Plan: fmt.Sprint(r.State.Plan), WithDefinition: true,
	})
	if err != nil {
		return Compiled{}, err
	}
	flow, err := CompileStored(reply.Definition, r.Spec.GraphHash)
	return Compiled{Flow: flow, Input: reply.Input}, err
}

// ReadPresent returns the flow and the input of the schedule at present. The error wraps engine.ErrScheduleNotFound.
func (s Store) ReadPresent(
	ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID,
) (Compiled, error) {
	for {
		r, _, err := s.Read(ctx, p, id, 0)
		if err == nil && r.State.Deleting {
			err = engine.ErrScheduleNotFound
		}
		if err != nil {
			return Compiled{}, err
		}
		content, err := s.ReadContent(ctx, r)
		if errors.Is(err, errorcode.ScheduleNotFound) {
			err = s.missingPlan(ctx, r, err)
		}
		if !errors.Is(err, errorcode.ScheduleChanged) {
			return content, err
		}
	}
}

// Edit changes an existing schedule: draft makes its new form from the record. It calls draft again when another
// process has changed the schedule since it was read. The error wraps engine.ErrScheduleNotFound.
func (s *Runner) Edit(
	ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID, draft func(*Record) (*Draft, error),
	changing func(save func() error) error,
) (*Record, error) {
	for {
		r, _, err := s.store.Read(ctx, p, id, 0)
		if err == nil && r.State.Deleting {
			err = engine.ErrScheduleNotFound
		}
		if err != nil {
			return nil, err
		}
		d, err := draft(r)
		if errors.Is(err, errorcode.ScheduleNotFound) {
			err = s.store.missingPlan(ctx, r, err)
		}
		if errors.Is(err, errorcode.ScheduleChanged) {
			continue
		}
		if err != nil || !d.differs(r) {
			return r, err
		}
		if err := s.store.settleDue(ctx, r); err != nil {
			return nil, err
		}
		d.change(r)
		err = changing(func() error { return s.store.save(ctx, r, &d.Content, true) })
		if !errors.Is(err, errorcode.ScheduleChanged) {
			return r, err
		}
	}
}
