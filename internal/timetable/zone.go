package timetable

import "time"

// next is the first time after t, or zero.
//
// The fields of an expression are matched with local time. Where the zone's offset changes, local time jumps: forward
// over readings that do not exist, or back to readings that occur twice.
//
//   - An expression that names its hours, such as "30 2 * * *", means times of day, and each happens once a day. A time
//     that does not exist happens when the clock has jumped, also several at once; one that comes twice happens the
//     first time.
//   - Any other, such as "*/30 * * * *", means the passage of time: it happens whenever the clock shows a reading that
//     matches, so never for one that does not exist, and twice for one that comes twice.
func (c *cronTable) next(t time.Time) time.Time {
	start, end, offset := c.period(t)
	wall := t.Add(offset)
	if c.byDay && !start.IsZero() {
		// Readings that also occurred before the change are skipped.
		_, _, before := c.period(start.Add(-time.Second))
		wall = latest(wall, start.Add(before-time.Second))
	}
	for {
		reading := c.reading(wall.UTC())
		if reading.IsZero() {
			return reading
		}
		at := reading.Add(-offset)
		if end.IsZero() || at.Before(end) {
			return at
		}
		_, following, after := c.period(end)
		jumpsFrom, jumpsTo := end.Add(offset), end.Add(after)
		if c.byDay && reading.Before(jumpsTo) {
			return end
		}
		// Readings are whole minutes, so a second before the first one is before it and after no other.
		wall = jumpsTo.Add(-time.Second)
		if c.byDay {
			wall = latest(wall, jumpsFrom.Add(-time.Second))
		}
		end, offset = following, after
	}
}

// period is the time around t for which the zone has one offset, as instants, and that offset. A zero start or end is
// none.
func (c *cronTable) period(t time.Time) (start, end time.Time, offset time.Duration) {
	local := t.In(c.zone)
	start, end = local.ZoneBounds()
	_, seconds := local.Zone()
	return start.UTC(), end.UTC(), time.Duration(seconds) * time.Second
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
