package worker

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// overstay detects a function that does not return after its context has ended. Such a function keeps its
// slot, since Go cannot end a goroutine from outside.
type overstay struct {
	// until is when the context ends by its limits, as a time.Duration after the task began; 0 while no
	// function runs.
	until atomic.Int64
	// noticed is when CheckOverstay first found the context ended. Only the goroutine of leaseManager.keep
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

// FunctionBegins records that the function runs, and when its context ends by its limits; the zero time is no
// limit.
func (t *Task) FunctionBegins(until time.Time) {
	end := time.Duration(math.MaxInt64)
	if !until.IsZero() {
		end = max(until.Sub(t.Begun), 1)
	}
	t.overstay.until.Store(int64(end))
}

// FunctionEnded records that the function has returned or has ended its goroutine.
func (t *Task) FunctionEnded() {
	t.overstay.until.Store(0)
	t.endOverstay()
}

// endOverstay ends a reported overstay, once.
func (t *Task) endOverstay() {
	if t.overstay.state.Load() == overstays && t.overstay.state.CompareAndSwap(overstays, overstayEnded) {
		t.run.Worker.Counts.Overstaying.Add(-1)
		t.log(slog.LevelInfo, engine.EventOverstayEnded, "a function returned long after its context had ended")
	}
}

// CheckOverstay logs a warning and counts an overstay, once for each task, when the function has not returned
// for patience after its context ended.
func (t *Task) CheckOverstay(now time.Time, patience time.Duration) {
	o := &t.overstay
	until := time.Duration(o.until.Load())
	if until == 0 || t.ctx.Err() == nil && now.Sub(t.Begun) < until || o.state.Load() != notOverstayed {
		return
	}
	if o.noticed.IsZero() {
		o.noticed = now
	}
	if now.Sub(o.noticed) < patience {
		return
	}
	counts := &t.run.Worker.Counts
	counts.Overstays.Add(1)
	counts.Overstaying.Add(1)
	o.state.Store(overstays)
	t.log(slog.LevelWarn, engine.EventOverstays, "a function has not returned though its context has ended, it keeps its slot",
		slog.String("activity", t.claimed.Kind), slog.Any("cause", t.CauseOfEnd(until)), slog.Duration("for", now.Sub(o.noticed)))
	if o.until.Load() == 0 {
		t.endOverstay() // the function returned meanwhile and may have missed the state
	}
}

// CauseOfEnd returns why the context of the function has ended: the cause of the task's context, or the limit
// that is due at until, a time.Duration after the task began.
func (t *Task) CauseOfEnd(until time.Duration) error {
	if cause := context.Cause(t.ctx); cause != nil {
		return cause
	}
	if deadline := t.claimed.DeadlineAt; !deadline.IsZero() && !deadline.After(t.Begun.Add(until)) {
		return engine.ErrDeadline
	}
	return engine.ErrStartToClose
}

// checkOverstays checks the functions of all tasks, including former ones.
func (b *leaseManager) checkOverstays() {
	now := time.Now()
	for _, tasks := range b.snapshot() {
		for _, t := range tasks {
			t.CheckOverstay(now, b.ttl)
		}
	}
	b.mu.Lock()
	former := make([]*Task, 0, len(b.former))
	for t := range b.former {
		former = append(former, t)
	}
	b.mu.Unlock()
	for _, t := range former {
		t.CheckOverstay(now, b.ttl)
	}
}
