package engine

import (
	"sync/atomic"
	"time"
)

// ClockReading is one look at the clock of an engine. From there on the time is measured on this machine, which neither
// a wrong wall clock nor one that is set changes.
type ClockReading struct {
	Engine time.Time
	Local  time.Time // with the reading of the monotonic clock
}

// ReadAt is a reading that came at a moment on this machine.
func ReadAt(engine, local time.Time) ClockReading { return ClockReading{engine, local} }

// ToLocal is the moment on this machine, good for measuring, that a time of the engine is.
func (r ClockReading) ToLocal(at time.Time) time.Time { return r.Local.Add(at.Sub(r.Engine)) }

// now is the engine's time.
func (r ClockReading) now() time.Time { return r.Engine.Add(time.Since(r.Local)) }

// EngineClock is the last look at an engine's clock.
type EngineClock struct{ last atomic.Pointer[ClockReading] }

func (c *EngineClock) Read(engine time.Time) {
	r := ReadAt(engine, time.Now())
	c.last.Store(&r)
}

// Now is the engine's time, the zero time before the first look.
func (c *EngineClock) Now() time.Time {
	if r := c.last.Load(); r != nil {
		return r.now()
	}
	return time.Time{}
}
