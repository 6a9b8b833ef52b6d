package engine

import (
	"sync/atomic"
	"time"
)

// ClockReading pairs a time of the engine's clock with the moment at which it was read here. Later times are measured
// with this machine's monotonic clock, so a wrong or changed wall clock does not affect them.
type ClockReading struct {
	Engine time.Time
	Local  time.Time // with the reading of the monotonic clock
}

// ReadAt returns a reading of the engine's time that arrived at the moment local of this machine.
func ReadAt(engine, local time.Time) ClockReading { return ClockReading{engine, local} }

// readingLifetime bounds how long a reading is used, as clocks drift: at 50 ppm by 3 ms.
const readingLifetime = time.Minute

// Better returns the more exact of two readings of one clock: this one, or a fresh one that was requested at the local
// time asked. A reading is late by the time that the reply took and, if it has whole milliseconds only, by the
// fraction that the engine left out. Better keeps the least late one for a minute, unless the fresh one contradicts
// it.
func (r ClockReading) Better(fresh ClockReading, asked time.Time) ClockReading {
	if r.Local.IsZero() || fresh.Local.Sub(r.Local) > readingLifetime {
		return fresh
	}
	expected := r.ToLocal(fresh.Engine)
	if expected.Before(asked.Add(-fresh.cutOff())) || expected.After(fresh.Local) {
		return fresh
	}
	return r
}

// cutOff is how much of the engine's time a reading may have left out.
func (r ClockReading) cutOff() time.Duration {
	if r.Engine.Nanosecond()%int(time.Millisecond) == 0 {
		return time.Millisecond
	}
	return time.Microsecond
}

// ToLocal converts a time of the engine to a moment of this machine, with a monotonic reading.
func (r ClockReading) ToLocal(at time.Time) time.Time { return r.Local.Add(at.Sub(r.Engine)) }

// now is the engine's time.
func (r ClockReading) now() time.Time { return r.Engine.Add(time.Since(r.Local)) }

// Clock holds the last reading of an engine's clock. The zero value has none. It is safe for concurrent use.
type Clock struct{ last atomic.Pointer[ClockReading] }

// Read records the engine's time as of now.
func (c *Clock) Read(engine time.Time) {
	r := ReadAt(engine, time.Now())
	c.last.Store(&r)
}

// Now returns the engine's time, or the zero time before the first Read.
func (c *Clock) Now() time.Time {
	if r := c.last.Load(); r != nil {
		return r.now()
	}
	return time.Time{}
}
