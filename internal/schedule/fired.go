package schedule

import (
	"cmp"
	"slices"
	"time"
)

const (
	// maxFiredSpans bounds the remembered spans of fired times. A server's clock that is set back and forth adds one
	// span each time.
	maxFiredSpans = 8
	// longestStart exceeds the time that a keeper may take to start a run. A fire with more time left was begun
	// before the clock was set back.
	longestStart = 10 * time.Minute
)

// FiredSpan is a stretch of the timetable whose times have all fired, from the first to the last of them, both
// included, in Unix ms.
type FiredSpan struct {
	From  int64 `json:"from"`
	Until int64 `json:"until"`
}

// firedUntil returns the end of the span of fired times that contains a time, and whether there is one.
func (s *State) firedUntil(at time.Time) (time.Time, bool) {
	ms := at.UnixMilli()
	for _, span := range s.Fired {
		if span.From <= ms && ms <= span.Until {
			return UnixTime(span.Until), true
		}
	}
	return time.Time{}, false
}

// noteFired records that a time of the timetable has fired.
func (r *Record) noteFired(at time.Time) {
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

// next returns the first time after now that has not fired; zero if there is none. Times after now have fired if the
// clock was ahead and has been set back.
func (r *Record) next() time.Time {
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

// rewind sets the next time of the timetable back to the first one after now, if the clock has been set back since it
// was computed. It reports whether it changed the record.
func (r *Record) rewind() bool {
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
func (r *Record) isStarting(fire PendingFire) bool {
	left := UnixTime(fire.StartBefore).Sub(r.now)
	return left >= 0 && left <= longestStart
}

// IsOverlooked reports whether the schedule may have work that the index of due schedules does not show, because its
// entry was written by a clock that has been set back. It may change the record's next time in memory.
func (r *Record) IsOverlooked() bool {
	return len(r.State.Waiting) > 0 || r.backfill() != nil || r.State.Deleting || r.isRipe() || r.rewind()
}
