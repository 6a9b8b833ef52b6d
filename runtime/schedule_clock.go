package runtime

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
type firedSpan struct {
	From  int64 `json:"from"`
	Until int64 `json:"until"`
}

// firedUntil is the end of the stretch of fired times that a time lies in.
func (s *scheduleState) firedUntil(at time.Time) (time.Time, bool) {
	ms := at.UnixMilli()
	for _, span := range s.Fired {
		if span.From <= ms && ms <= span.Until {
			return unixTime(span.Until), true
		}
	}
	return time.Time{}, false
}

// noteFired remembers that a time of the timetable has been fired.
func (r *scheduleRecord) noteFired(at time.Time) {
	spans := r.state.Fired
	for i, span := range slices.Backward(spans) {
		if r.times.Next(unixTime(span.Until)).Equal(at) {
			spans[i].Until = at.UnixMilli()
			return
		}
	}
	spans = append(spans, firedSpan{at.UnixMilli(), at.UnixMilli()})
	if len(spans) > maxFiredSpans {
		oldest := slices.MinFunc(spans, func(a, b firedSpan) int { return cmp.Compare(a.Until, b.Until) })
		spans = slices.DeleteFunc(spans, func(s firedSpan) bool { return s == oldest })
	}
	r.state.Fired = spans
}

// next is the first time after now that has not been fired; zero when there is none. Some after now have been where the clock
// was ahead and has been set back.
func (r *scheduleRecord) next() time.Time {
	at := r.times.Next(r.now)
	for !at.IsZero() {
		until, fired := r.state.firedUntil(at)
		if !fired {
			break
		}
		at = r.times.Next(until)
	}
	return at
}

// rewind brings the next time of the timetable back to the first one after now, where the clock has been set back since it was
// worked out. It reports whether it had to.
func (r *scheduleRecord) rewind() bool {
	if r.state.PausedAt != 0 || r.state.Deleting {
		return false
	}
	next := r.next()
	if next.IsZero() || r.state.Due != 0 && !next.Before(unixTime(r.state.Due)) {
		return false
	}
	r.setDue(next)
	return true
}

// isStarting reports whether a keeper may still be starting a fire.
func (r *scheduleRecord) isStarting(fire pendingFire) bool {
	left := unixTime(fire.StartBefore).Sub(r.now)
	return left >= 0 && left <= longestStart
}

// isOverlooked reports whether there may be something to do that the index of due schedules does not tell of, because its times
// are those of a clock that has been set back.
func (r *scheduleRecord) isOverlooked() bool {
	return len(r.state.Waiting) > 0 || r.state.Deleting || r.isRipe() || r.rewind()
}
