package timetable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// Bounds of a spec.
const (
	// maxCron is the longest cron expression, in bytes.
	maxCron = 256
	// minEvery and maxEvery bound an interval.
	minEvery = time.Second
	maxEvery = 10 * 366 * 24 * time.Hour
	// maxJitter bounds the result of Delay.
	maxJitter = time.Hour
)

// Spec declares a timetable: either Cron or Every is set.
type Spec struct {
	// Cron is an expression of five fields (minute, hour, day of month, month, day of week) or one of @hourly, @daily,
	// @midnight, @weekly, @monthly, @yearly and @annually. The fields have the meaning of Vixie's cron: Sunday is 0 or
	// 7; when neither of the fields of days begins with a star, a day on which either matches, and else a day on which
	// both do. Days of the week may go over the end of the week, as in FRI-MON. Zone is the IANA name of its time zone;
	// empty is UTC.
	Cron, Zone string
	// Every is an interval. Its times are Start, or the Unix epoch without one, plus multiples of the interval.
	Every time.Duration
	// Start and End bound the times, both inclusive. Zero sets no bound.
	Start, End time.Time
	// Jitter delays each time by less than it: see Delay.
	Jitter time.Duration
}

// Timetable gives the times of a Spec.
type Timetable struct {
	spec Spec
	cron *cronTable // nil with an interval
}

// New checks a spec. The error joins all faults of it, by the names of the fields of runtime.ScheduleConfig.
func New(spec Spec) (*Timetable, error) {
	spec.Start, spec.End = milliseconds(spec.Start), milliseconds(spec.End)
	t := &Timetable{spec: spec}
	var faults []error
	switch {
	case spec.Cron != "" && spec.Every != 0:
		faults = append(faults, fault("Cron, Every: only one of them may be set"))
	case spec.Every != 0:
		faults = append(faults, checkEvery(spec))
	default:
		var err error
		t.cron, err = newCronTable(spec.Cron, spec.Zone)
		faults = append(faults, err)
	}
	if spec.Jitter < 0 || spec.Jitter > maxJitter {
		faults = append(faults, fault("Jitter %s: must be 0 to %s", spec.Jitter, maxJitter))
	}
	for name, at := range map[string]time.Time{"StartingAt": spec.Start, "EndingAt": spec.End} {
		if err := recordtext.CheckTime(at); err != nil {
			faults = append(faults, fault("%s %w", name, err))
		}
	}
	if !spec.Start.IsZero() && !spec.End.IsZero() && spec.End.Before(spec.Start) {
		faults = append(faults, fault("EndingAt %s: must not be before StartingAt %s",
			spec.End.Format(time.RFC3339), spec.Start.Format(time.RFC3339)))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return t, nil
}

// Faults returns the faults that an error of New joins.
func Faults(err error) []error {
	joined, several := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !several:
		return []error{err}
	}
	var faults []error
	for _, inner := range joined.Unwrap() {
		faults = append(faults, Faults(inner)...)
	}
	return faults
}

// fault is an error that begins with the name of a field.
func fault(format string, args ...any) error { return fmt.Errorf(format, args...) }

func checkEvery(spec Spec) error {
	switch {
	case spec.Every < minEvery || spec.Every > maxEvery:
		return fault("Every %s: must be %s to ten years", spec.Every, minEvery)
	case spec.Every%time.Millisecond != 0:
		return fault("Every %s: must be whole milliseconds", spec.Every)
	case spec.Jitter >= spec.Every:
		return fault("Jitter %s: must be less than Every, %s", spec.Jitter, spec.Every)
	}
	return nil
}

func milliseconds(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Truncate(time.Millisecond).UTC()
}

// Next is the first time after t; zero when there is none that can be stored (recordtext.CheckTime).
func (t *Timetable) Next(after time.Time) time.Time {
	if !t.spec.Start.IsZero() && after.Before(t.spec.Start) {
		after = t.spec.Start.Add(-time.Millisecond)
	}
	var next time.Time
	if t.cron != nil {
		next = t.cron.next(after)
	} else {
		next = t.at(t.index(after) + 1)
	}
	next = next.UTC()
	if next.IsZero() || recordtext.CheckTime(next) != nil || !t.spec.End.IsZero() && next.After(t.spec.End) {
		return time.Time{}
	}
	return next
}

// index is the number of the last time of an interval that is not after t; at is its inverse.
func (t *Timetable) index(of time.Time) int64 {
	every := t.spec.Every.Milliseconds()
	distance := of.UnixMilli() - t.anchor()
	n := distance / every
	if distance%every < 0 {
		n--
	}
	return n
}

func (t *Timetable) at(index int64) time.Time {
	return time.UnixMilli(t.anchor() + index*t.spec.Every.Milliseconds())
}

func (t *Timetable) anchor() int64 {
	if t.spec.Start.IsZero() {
		return 0
	}
	return t.spec.Start.UnixMilli()
}

// maxPassed bounds the times that Passed iterates over.
const maxPassed = 1 << 20

// Passed counts the times from first, which is a time of the timetable, to until, both inclusive, and returns the last
// `keep` of them. For a cron expression it stops counting after about a million, and continues with the times of the
// last hour.
func (t *Timetable) Passed(first, until time.Time, keep int) (count int64, last []time.Time) {
	if t.cron == nil {
		from, to := t.index(first), t.index(until)
		if end := t.spec.End; !end.IsZero() {
			to = min(to, t.index(end))
		}
		for i := max(from, to-int64(keep)+1); i <= to; i++ {
			last = append(last, t.at(i).UTC())
		}
		return max(0, to-from+1), last
	}
	ring := make([]time.Time, 0, keep)
	for at := first; !at.IsZero() && !at.After(until); at = t.Next(at) {
		if len(ring) < keep {
			ring = append(ring, at)
		} else {
			ring[count%int64(keep)] = at
		}
		if count++; count == maxPassed {
			at = latest(at, until.Add(-time.Hour))
		}
	}
	oldest := 0
	if count > int64(len(ring)) {
		oldest = int(count % int64(keep))
	}
	return count, slices.Concat(ring[oldest:], ring[:oldest])
}

// Delay is by how much one time of the timetable is put off: at least 0 and less than the jitter, always the same for
// one name and time.
func (t *Timetable) Delay(name string, at time.Time) time.Duration {
	jitter := t.spec.Jitter.Milliseconds()
	if jitter <= 0 {
		return 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write(binary.BigEndian.AppendUint64([]byte(name), uint64(at.UnixMilli())))
	// The low bits of the sum of similar texts are alike.
	mixed := sum.Sum64() * 0x9e3779b97f4a7c15
	return time.Duration((mixed>>20)%uint64(jitter)) * time.Millisecond
}
