package runtime

import (
	"fmt"
	"slices"
	"time"
)

// maxWaitingFires bounds the fires that wait for their runs, whatever they wait for.
const maxWaitingFires = 2 * maxMadeUp

// timesKept are the last times that are looked at one by one after a pause of the keepers: those that may be made up, and those
// that a jitter still puts off.
const timesKept = maxMadeUp + int(maxScheduleJitter/time.Minute) + 96

// ripeAt is when a time of the timetable fires.
func (r *scheduleRecord) ripeAt(at time.Time) time.Time {
	return at.Add(r.times.Delay(r.spec.Name, at))
}

// isRipe tells whether something of the timetable is due.
func (r *scheduleRecord) isRipe() bool {
	return r.state.Due != 0 && r.state.PausedAt == 0 && !r.state.Deleting && !r.ripeAt(unixTime(r.state.Due)).After(r.now)
}

// planNext makes the first time after now that has not been fired the next one.
func (r *scheduleRecord) planNext() { r.setDue(r.next()) }

func (r *scheduleRecord) setDue(at time.Time) {
	r.state.Due = 0
	if !at.IsZero() {
		r.state.Due = at.UnixMilli()
	}
}

// settle takes what is due out of the timetable: fires that wait for their run, and those that are missed. open tells whether
// the run before is. It reports whether there was anything.
func (r *scheduleRecord) settle(open bool) bool {
	if !r.isRipe() {
		return false
	}
	first := unixTime(r.state.Due)
	count, last := r.times.Passed(first, r.now, timesKept)
	unripe := slices.IndexFunc(last, func(at time.Time) bool { return r.ripeAt(at).After(r.now) })
	if unripe >= 0 {
		r.setDue(last[unripe])
		count -= int64(len(last) - unripe)
		last = last[:unripe]
	}
	until := last[0]
	all := len(last)
	last = slices.DeleteFunc(last, func(at time.Time) bool {
		_, fired := r.state.firedUntil(at)
		return fired
	})
	count -= int64(all - len(last))
	oldest := max(0, len(last)-maxMadeUp)
	for oldest < len(last) && r.now.Sub(r.ripeAt(last[oldest])) > r.spec.catchUp() {
		oldest++
	}
	if missed := count - int64(len(last)-oldest); missed > 0 {
		entry := storedFire{At: first.UnixMilli(), Outcome: fireMissed, Reason: "nobody was there to start it"}
		if oldest > 0 {
			until = last[oldest-1]
		}
		if missed > 1 {
			entry.Count, entry.Until = missed, until.UnixMilli()
		}
		r.state.Missed += missed
		r.note(entry)
	}
	for _, at := range last[oldest:] {
		r.admit(at, open)
		r.noteFired(at)
	}
	if len(last) > 0 {
		r.state.LastFire = last[len(last)-1].UnixMilli()
	}
	if unripe < 0 {
		r.planNext()
	}
	return true
}

// admit lets a fire wait for its run, if the overlap policy has room for it.
func (r *scheduleRecord) admit(at time.Time, open bool) {
	fire := pendingFire{At: at.UnixMilli()}
	if reason := r.refusal(open); reason != "" {
		r.skip(fire, reason)
		return
	}
	r.push(fire)
}

// refusal is why a fire may not wait; "" when it may.
func (r *scheduleRecord) refusal(open bool) string {
	waiting := len(r.state.Waiting)
	switch {
	case r.spec.Overlap == overlapSkip && open:
		return "run " + r.state.Last.Run + " was open"
	case r.spec.Overlap == overlapQueue && open && waiting >= r.spec.QueueLimit,
		// The first one need not wait.
		r.spec.Overlap == overlapQueue && waiting > r.spec.QueueLimit:
		return fmt.Sprintf("%d fires waited already", waiting)
	case waiting >= maxWaitingFires:
		return fmt.Sprintf("%d fires waited to be started", waiting)
	}
	return ""
}

// push adds a fire. Under overlapCancelPrevious it takes the place of those that nobody has begun to start.
func (r *scheduleRecord) push(fire pendingFire) {
	if r.spec.Overlap == overlapCancelPrevious {
		r.skipWaiting("a later fire took its place")
	}
	r.state.Serial++
	fire.Serial = r.state.Serial
	r.state.Waiting = append(r.state.Waiting, fire)
}

// mayStart tells whether a fire may be started as far as the schedule is concerned: a pause holds the timetable, not who
// triggers it by hand.
func (r *scheduleRecord) mayStart(fire pendingFire) bool {
	return fire.StartBefore == 0 && !r.state.Deleting && (r.state.PausedAt == 0 || fire.Triggered)
}

// starting is the fire that a keeper has begun to start, or -1.
func (r *scheduleRecord) starting() int {
	return slices.IndexFunc(r.state.Waiting, func(f pendingFire) bool { return f.StartBefore > 0 })
}

// nextFire is the fire that may be started next, or -1.
func (r *scheduleRecord) nextFire() int { return slices.IndexFunc(r.state.Waiting, r.mayStart) }

// skipWaiting starts nothing for the fires that may be started.
func (r *scheduleRecord) skipWaiting(reason string) {
	r.state.Waiting = slices.DeleteFunc(r.state.Waiting, func(fire pendingFire) bool {
		if !r.mayStart(fire) {
			return false
		}
		r.skip(fire, reason)
		return true
	})
}

func (r *scheduleRecord) skip(fire pendingFire, reason string) {
	r.state.Skipped++
	r.note(storedFire{At: fire.At, Outcome: fireSkipped, Reason: reason, Manual: fire.Triggered})
}

// finish notes what became of a fire that was being started: cause is why it has no run.
func (r *scheduleRecord) finish(serial int64, flowName string, cause error) bool {
	i := slices.IndexFunc(r.state.Waiting, func(f pendingFire) bool { return f.Serial == serial })
	if i < 0 {
		return false
	}
	fire := r.state.Waiting[i]
	r.state.Waiting = slices.Delete(r.state.Waiting, i, i+1)
	entry := storedFire{At: fire.At, Outcome: fireStarted, Flow: flowName, Run: runOf(r.spec.Name, fire), Manual: fire.Triggered}
	if cause != nil {
		r.state.Failed++
		entry.Outcome, entry.Run, entry.Reason = fireFailed, "", cause.Error()
	} else {
		r.state.Started++
		r.state.Last = &startedRun{Flow: flowName, Run: entry.Run, At: fire.At}
	}
	r.note(entry)
	return true
}

// lookAt is when a keeper has to look at the schedule; zero is never.
func (r *scheduleRecord) lookAt() time.Time {
	if i := r.starting(); i >= 0 {
		return unixTime(r.state.Waiting[i].StartBefore + 1)
	}
	var at time.Time
	if r.state.Due != 0 && r.state.PausedAt == 0 && !r.state.Deleting {
		at = r.ripeAt(unixTime(r.state.Due))
	}
	if again := r.now.Add(r.patience()); (r.nextFire() >= 0 || r.state.Deleting) && (at.IsZero() || again.Before(at)) {
		at = again
	}
	return at
}

// patience is how long a fire waits before a keeper looks at it again without being told.
func (r *scheduleRecord) patience() time.Duration {
	if r.urgent {
		return 0
	}
	return lookAgain
}
