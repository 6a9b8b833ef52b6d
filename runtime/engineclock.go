package runtime

import (
	"sync/atomic"
	"time"
)

// clockReading is one look at the clock of an engine. From there on the time is measured on this machine, which neither
// a wrong wall clock nor one that is set changes.
type clockReading struct {
	engine time.Time
	local  time.Time // with the reading of the monotonic clock
}

// readAt is a reading that came at a moment on this machine.
func readAt(engine, local time.Time) clockReading { return clockReading{engine, local} }

// toLocal is the moment on this machine, good for measuring, that a time of the engine is.
func (r clockReading) toLocal(at time.Time) time.Time { return r.local.Add(at.Sub(r.engine)) }

// now is the engine's time.
func (r clockReading) now() time.Time { return r.engine.Add(time.Since(r.local)) }

// engineClock is the last look at an engine's clock.
type engineClock struct{ last atomic.Pointer[clockReading] }

func (c *engineClock) read(engine time.Time) {
	r := readAt(engine, time.Now())
	c.last.Store(&r)
}

// now is the engine's time, the zero time before the first look.
func (c *engineClock) now() time.Time {
	if r := c.last.Load(); r != nil {
		return r.now()
	}
	return time.Time{}
}
