package schedule

import (
	"cmp"
	"slices"
	"time"
)

const (
	// maxFiredSpans bounds what is remembered of the times that have been fired. The clock of a server that is set to and fro
	// leaves a span more each time.
	maxFiredSpans = 8
	// longestStart is more than a keeper may take to start a run. One that seems to have more time began before the clock was
	// set back.
	longestStart = 10 * time.Minute
)

// firedSpan is a stretch of the timetable whose times have been fired, from the first to the last of them in Unix ms.
type FiredSpan struct {
	From  int64 `json:"from"`
	Until int64 `json:"until"`
}

// firedUntil is the end of the stretch of fired times that a time lies in.
func (s *ScheduleState) firedUntil(at time.Time) (time.Time, bool) {
	ms := at.UnixMilli()
	for _, span := range s.Fired {
		if span.From <= ms && ms <= span.Until {
			return UnixTime(span.Until), true
		}
	}
	return time.Time{}, false
}

// noteFired remembers that a time of the timetable has been fired.
func (r *ScheduleRecord) noteFired(at time.Time) {
	spans := r.State.Fired
	for i, span := range slices.Backward(spans) {
		if r.times.Next(UnixTime(span.Until)).Equal(at) {
			spans[i].Until = at.UnixMilli()
			return
		}
	}
	spans = append(spans, FiredSpan{at.UnixMilli(), at.UnixMilli()})
	if len(spans) > maxFiredSpans {
		oldest := slices.MinFunc(spans, func(a, b FiredSpan) int { return cmp.Compare(a.Until, b.Until) })
		spans = slices.DeleteFunc(spans, func(s FiredSpan) bool { return s == oldest })
	}
	r.State.Fired = spans
}

// next is the first time after now that has not been fired; zero when there is none. Some after now have been where the clock
// was ahead and has been set back.
func (r *ScheduleRecord) next() time.Time {
	at := r.times.Next(r.now)
	for !at.IsZero() {
		until, fired := r.State.firedUntil(at)
		if !fired {
			break
		}
		at = r.times.Next(until)
	}
	return at
}

// rewind brings the next time of the timetable back to the first one after now, where the clock has been set back since it was
// worked out. It reports whether it had to.
func (r *ScheduleRecord) rewind() bool {
	if r.State.PausedAt != 0 || r.State.Deleting {
		return false
	}
	next := r.next()
	if next.IsZero() || r.State.Due != 0 && !next.Before(UnixTime(r.State.Due)) {
		return false
	}
	r.setDue(next)
	return true
}

// isStarting reports whether a keeper may still be starting a fire.
func (r *ScheduleRecord) isStarting(fire PendingFire) bool {
	left := UnixTime(fire.StartBefore).Sub(r.now)
	return left >= 0 && left <= longestStart
}

// isOverlooked reports whether there may be something to do that the index of due schedules does not tell of, because its times
// are those of a clock that has been set back.
func (r *ScheduleRecord) IsOverlooked() bool {
	return len(r.State.Waiting) > 0 || r.State.Deleting || r.isRipe() || r.rewind()
}
