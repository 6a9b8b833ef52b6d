package attempt

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
)

// overstay detects a function that does not return after its context has ended. Such a function keeps its
// slot, since Go cannot end a goroutine from outside.
type overstay struct {
	// until is when the context ends by its limits, as a time.Duration after the task began; 0 while no
	// function runs.
	until atomic.Int64
	// noticed is when CheckOverstay first found the context ended. Only the goroutine of renewal.Manager.keep
	// uses it.
	noticed time.Time
	// state is one of the states below.
	state atomic.Int32
}

// States of an overstay: none reported, reported and still running, reported and returned.
const (
	notOverstayed int32 = iota
	overstays
	overstayEnded
)

// FunctionBegins records that the function runs, and when its limits end its context; the zero time means without
// limit.
func (a *Attempt) FunctionBegins(until time.Time) {
	end := time.Duration(math.MaxInt64)
	if !until.IsZero() {
		end = max(until.Sub(a.Begun), 1)
	}
	a.overstay.until.Store(int64(end))
}

// FunctionEnded records that the function has returned or has ended its goroutine.
func (a *Attempt) FunctionEnded() {
	a.overstay.until.Store(0)
	a.endOverstay()
}

// endOverstay ends a reported overstay, once.
func (a *Attempt) endOverstay() {
	if a.overstay.state.Load() == overstays && a.overstay.state.CompareAndSwap(overstays, overstayEnded) {
		a.Run.Overstays.Overstaying.Add(-1)
		a.Log(slog.LevelInfo, observe.EventOverstayEnded,
			"the function returned long after its context had ended")
	}
}

// CheckOverstay logs a warning and counts an overstay, once for each task, when the function has not returned
// for patience after its context ended.
func (a *Attempt) CheckOverstay(now time.Time, patience time.Duration) {
	until := time.Duration(a.overstay.until.Load())
	if until == 0 || a.Ctx.Err() == nil && now.Sub(a.Begun) < until || a.overstay.state.Load() != notOverstayed {
		return
	}
	if a.overstay.noticed.IsZero() {
		a.overstay.noticed = now
	}
	if now.Sub(a.overstay.noticed) < patience {
		return
	}
	counts := a.Run.Overstays
	counts.Overstays.Add(1)
	counts.Overstaying.Add(1)
	a.overstay.state.Store(overstays)
	a.Log(slog.LevelWarn, observe.EventOverstays,
		"the function has not returned although its context has ended, and keeps its slot",
		slog.String("activity", a.Claimed.Kind), slog.Any("cause", a.causeOfEnd(until)),
		slog.Duration("duration", now.Sub(a.overstay.noticed)))
	if a.overstay.until.Load() == 0 {
		a.endOverstay() // the function may have returned in the meantime without seeing the state
	}
}

// causeOfEnd returns why the context of the function has ended: the cause of the task's context, or the limit
// that is due at until, a time.Duration after the task began.
func (a *Attempt) causeOfEnd(until time.Duration) error {
	if cause := context.Cause(a.Ctx); cause != nil {
		return cause
	}
	if deadline := a.Claimed.DeadlineAt; !deadline.IsZero() && !deadline.After(a.Begun.Add(until)) {
		return engine.ErrDeadline
	}
	return engine.ErrStartToClose
}

// OverstayCounts are the counters of functions that do not return after their contexts have ended: Overstays counts
// those that CheckOverstay has reported, and Overstaying is how many of them still run.
type OverstayCounts struct {
	Overstays, Overstaying atomic.Int64
}
