package schedule

import (
	"fmt"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"slices"
	"time"
)

// maxWaitingFires bounds the fires that wait for their runs.
const maxWaitingFires = 2 * MaxMadeUp

// timesKept is the number of latest times that are considered one by one after a time without keepers: those that may
// be made up for, and those that a jitter still defers.
const timesKept = MaxMadeUp + int(MaxScheduleJitter/time.Minute) + 96

// ripeAt returns when a time of the timetable fires: the time with its jitter.
func (r *Record) ripeAt(at time.Time) time.Time {
	return at.Add(r.times.Delay(r.Spec.Name, at))
}

// isRipe reports whether a time of the timetable is due.
func (r *Record) isRipe() bool {
	return r.State.Due != 0 && r.State.PausedAt == 0 && !r.State.Deleting &&
		!r.ripeAt(UnixTime(r.State.Due)).After(r.now)
}

// planNext sets the next time to the first one after now that has not fired.
func (r *Record) planNext() { r.setDue(r.next()) }

func (r *Record) setDue(at time.Time) {
	r.State.Due = 0
	if !at.IsZero() {
		r.State.Due = at.UnixMilli()
	}
}

// settle takes the due times out of the timetable: they become waiting, skipped or missed fires. open is whether the
// previous run is open. It reports whether there were any.
func (r *Record) settle(open bool) bool {
	if !r.isRipe() {
		return false
	}
	first := UnixTime(r.State.Due)
	count, last, delayed := r.passed()
	until := last[0]
	all := len(last)
	last = slices.DeleteFunc(last, func(at time.Time) bool {
		_, fired := r.State.firedUntil(at)
		return fired
	})
	count -= int64(all - len(last))
	oldest := max(0, len(last)-MaxMadeUp)
	for oldest < len(last) && r.now.Sub(r.ripeAt(last[oldest])) > r.Spec.CatchUp() {
		oldest++
	}
	if missed := count - int64(len(last)-oldest); missed > 0 {
		entry := StoredFire{
			At: first.UnixMilli(), Outcome: fabrictype.FireMissed, Reason: "nobody was there to start it",
		}
		if oldest > 0 {
			until = last[oldest-1]
		}
		if missed > 1 {
			entry.Count, entry.Until = missed, until.UnixMilli()
		}
		r.State.Missed += missed
		r.note(entry)
	}
	for _, at := range last[oldest:] {
		r.Admit(at, open)
		r.noteFired(at)
	}
	if len(last) > 0 {
		r.State.LastFire = last[len(last)-1].UnixMilli()
	}
	r.planAfter(delayed)
	return true
}

// passed returns the times of the timetable from the next one until now: the number of the ripe ones and the latest of
// them, and those that the jitter still delays.
func (r *Record) passed() (count int64, ripe, delayed []time.Time) {
	count, last := r.times.Passed(UnixTime(r.State.Due), r.now, timesKept)
	if i := slices.IndexFunc(last, func(at time.Time) bool { return r.ripeAt(at).After(r.now) }); i >= 0 {
		return count - int64(len(last)-i), last[:i], last[i:]
	}
	return count, last, nil
}

// planAfter sets the next time to the first one that the jitter delays, or else to the first one after now.
func (r *Record) planAfter(delayed []time.Time) {
	if len(delayed) > 0 {
		r.setDue(delayed[0])
		return
	}
	r.planNext()
}

// dropRipe takes the due times out of the timetable without a trace: they came due during a pause.
func (r *Record) dropRipe() {
	var delayed []time.Time
	if r.State.Due != 0 {
		_, _, delayed = r.passed()
	}
	r.planAfter(delayed)
}

// skipDelayed records the times that have passed and that the jitter still delays as skipped. Due times have been
// settled.
func (r *Record) skipDelayed(reason string) {
	if r.State.Due == 0 || r.State.PausedAt != 0 {
		return
	}
	_, _, delayed := r.passed()
	for _, at := range delayed {
		r.skip(PendingFire{At: at.UnixMilli()}, reason)
		r.State.LastFire = at.UnixMilli()
	}
}

// Admit adds the fire of a time to those that wait for their run, or records it as skipped if the overlap policy has
// no room for it. open is whether the previous run is open.
func (r *Record) Admit(at time.Time, open bool) {
	fire := PendingFire{At: at.UnixMilli()}
	if reason := r.refusal(open); reason != "" {
		r.skip(fire, reason)
		return
	}
	r.push(fire)
}

// refusal returns why a fire may not wait; "" if it may.
func (r *Record) refusal(open bool) string {
	waiting := len(r.State.Waiting)
	switch {
	case r.Spec.Overlap == fabrictype.OverlapSkip && open:
		return "run " + r.State.Last.Run + " was open"
	case r.Spec.Overlap == fabrictype.OverlapQueue && open && waiting >= r.Spec.QueueLimit,
		// The first one need not wait.
		r.Spec.Overlap == fabrictype.OverlapQueue && waiting > r.Spec.QueueLimit:
		return fmt.Sprintf("%d fires waited already", waiting)
	case waiting >= maxWaitingFires:
		return fmt.Sprintf("%d fires waited to be started", waiting)
	}
	return ""
}

// push adds a fire. Under OverlapCancelPrevious it replaces those that no keeper has begun to start.
func (r *Record) push(fire PendingFire) {
	if r.Spec.Overlap == fabrictype.OverlapCancelPrevious {
		r.skipWaiting("a later fire took its place")
	}
	r.State.Serial++
	fire.Serial = r.State.Serial
	r.State.Waiting = append(r.State.Waiting, fire)
}

// mayStart reports whether the schedule permits to start a fire: a pause holds back the fires of the timetable, not
// triggered ones.
func (r *Record) mayStart(fire PendingFire) bool {
	return fire.StartBefore == 0 && !r.State.Deleting && (r.State.PausedAt == 0 || fire.Triggered)
}

// starting returns the index of the fire that a keeper has begun to start, or -1.
func (r *Record) starting() int {
	return slices.IndexFunc(r.State.Waiting, func(f PendingFire) bool { return f.StartBefore > 0 })
}

// nextFire returns the index of the fire that may be started next, or -1.
func (r *Record) nextFire() int { return slices.IndexFunc(r.State.Waiting, r.mayStart) }

// passHeld moves the fires that a pause holds back to the end of the list, so that the fire at an index may start
// before them, and returns the new index of that fire. They get later numbers, because the engine starts no fire after
// one with a later number.
func (r *Record) passHeld(i int) int {
	serial := r.State.Waiting[i].Serial
	isHeld := func(f PendingFire) bool { return f.StartBefore == 0 && !r.mayStart(f) }
	if !slices.ContainsFunc(r.State.Waiting[:i], isHeld) {
		return i
	}
	var held []PendingFire
	for _, fire := range r.State.Waiting {
		if isHeld(fire) {
			r.State.Serial++
			fire.Serial = r.State.Serial
			held = append(held, fire)
		}
	}
	r.State.Waiting = append(slices.DeleteFunc(r.State.Waiting, isHeld), held...)
	return slices.IndexFunc(r.State.Waiting, func(f PendingFire) bool { return f.Serial == serial })
}

// skipWaiting records the fires that may be started as skipped.
func (r *Record) skipWaiting(reason string) {
	r.State.Waiting = slices.DeleteFunc(r.State.Waiting, func(fire PendingFire) bool {
		if !r.mayStart(fire) {
			return false
		}
		r.skip(fire, reason)
		return true
	})
}

// skip records a skipped fire in counter and history.
func (r *Record) skip(fire PendingFire, reason string) {
	r.State.Skipped++
	r.note(StoredFire{At: fire.At, Outcome: fabrictype.FireSkipped, Reason: reason, Manual: fire.Triggered})
}

// finish records the outcome of a fire that was being started: cause is why it has no run. It reports whether the
// fire was still waiting. existed is whether the run was there before.
func (r *Record) finish(serial int64, flowName string, existed bool, cause error) bool {
	i := slices.IndexFunc(r.State.Waiting, func(f PendingFire) bool { return f.Serial == serial })
	if i < 0 {
		return false
	}
	fire := r.State.Waiting[i]
	r.State.Waiting = slices.Delete(r.State.Waiting, i, i+1)
	if fire.Backfill {
		r.finishBackfill(fire, flowName, existed, cause)
		return true
	}
	entry := StoredFire{
		At: fire.At, Outcome: fabrictype.FireStarted, Flow: flowName, Run: RunOf(r.Spec.Name, fire),
		Manual: fire.Triggered,
	}
	if cause != nil {
		r.State.Failed++
		entry.Outcome, entry.Run, entry.Reason = fabrictype.FireFailed, "", cause.Error()
	} else {
		r.State.Started++
		r.State.Last = &StartedRun{Flow: flowName, Run: entry.Run, At: fire.At}
	}
	r.note(entry)
	return true
}

// recheck returns when a keeper has to work on the schedule; zero is never. A waiting fire is checked after the
// patience without a message, at once if the record is urgent.
func (r *Record) recheck(patience time.Duration) time.Time {
	if i := r.starting(); i >= 0 {
		return UnixTime(r.State.Waiting[i].StartBefore + 1)
	}
	var at time.Time
	if r.State.Due != 0 && r.State.PausedAt == 0 && !r.State.Deleting {
		at = r.ripeAt(UnixTime(r.State.Due))
	}
	if r.urgent {
		patience = 0
	}
	again, isBusy := r.now.Add(patience), r.nextFire() >= 0 || r.backfill() != nil || r.State.Deleting
	if isBusy && (at.IsZero() || again.Before(at)) {
		at = again
	}
	return at
}
