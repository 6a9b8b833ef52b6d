package worker

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// overstay detects a function that does not return after its context has ended. Such a function keeps its
// slot, since Go cannot end a goroutine from outside.
type overstay struct {
	attempt *attempt
	// until is when the context ends by its limits, as a time.Duration after the task began; 0 while no
	// function runs.
	until atomic.Int64
	// noticed is when check first found the context ended. Only the goroutine of leaseManager.keep
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

// begin records that the function runs, and when its context ends by its limits; the zero time is no
// limit.
func (o *overstay) begin(until time.Time) {
	end := time.Duration(math.MaxInt64)
	if !until.IsZero() {
		end = max(until.Sub(o.attempt.begun), 1)
	}
	o.until.Store(int64(end))
}

// functionEnded records that the function has returned or has ended its goroutine.
func (o *overstay) functionEnded() {
	o.until.Store(0)
	o.end()
}

// end ends a reported overstay, once.
func (o *overstay) end() {
	if o.state.Load() == overstays && o.state.CompareAndSwap(overstays, overstayEnded) {
		o.attempt.run.worker.Counts.Overstaying.Add(-1)
		o.attempt.log(slog.LevelInfo, engine.EventOverstayEnded,
			"the function returned long after its context had ended")
	}
}

// check logs a warning and counts an overstay, once for each task, when the function has not returned
// for patience after its context ended.
func (o *overstay) check(now time.Time, patience time.Duration) {
	until := time.Duration(o.until.Load())
	if until == 0 || o.attempt.ctx.Err() == nil && now.Sub(o.attempt.begun) < until || o.state.Load() != notOverstayed {
		return
	}
	if o.noticed.IsZero() {
		o.noticed = now
	}
	if now.Sub(o.noticed) < patience {
		return
	}
	counts := &o.attempt.run.worker.Counts
	counts.Overstays.Add(1)
	counts.Overstaying.Add(1)
	o.state.Store(overstays)
	o.attempt.log(slog.LevelWarn, engine.EventOverstays,
		"the function has not returned although its context has ended, and keeps its slot",
		slog.String("activity", o.attempt.claimed.Kind), slog.Any("cause", o.causeOfEnd(until)),
		slog.Duration("duration", now.Sub(o.noticed)))
	if o.until.Load() == 0 {
		o.end() // the function returned meanwhile and may have missed the state
	}
}

// causeOfEnd returns why the context of the function has ended: the cause of the task's context, or the limit
// that is due at until, a time.Duration after the task began.
func (o *overstay) causeOfEnd(until time.Duration) error {
	if cause := context.Cause(o.attempt.ctx); cause != nil {
		return cause
	}
	if deadline := o.attempt.claimed.DeadlineAt; !deadline.IsZero() && !deadline.After(o.attempt.begun.Add(until)) {
		return engine.ErrDeadline
	}
	return engine.ErrStartToClose
}
