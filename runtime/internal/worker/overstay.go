package worker

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// overstay watches whether the function of a task returns when its context has ended. A function that does not keeps its slot,
// since nothing can end a goroutine from outside.
type overstay struct {
	// until is when the context ends by itself, as a time.Duration after the task began; 0 while no function runs.
	until atomic.Int64
	// noticed is when the context was found ended. Only the goroutine that keeps the leases uses it.
	noticed time.Time
	// state says whether the function has been reported.
	state atomic.Int32
}

// States of an overstay.
const (
	notOverstayed int32 = iota
	overstays
	overstayEnded
)

// functionBegins notes that the function runs, until the given time at most; zero is no limit.
func (t *Task) FunctionBegins(until time.Time) {
	end := time.Duration(math.MaxInt64)
	if !until.IsZero() {
		end = max(until.Sub(t.Begun), 1)
	}
	t.overstay.until.Store(int64(end))
}

// functionEnded notes that the function has returned, or has ended its goroutine.
func (t *Task) FunctionEnded() {
	t.overstay.until.Store(0)
	t.endOverstay()
}

func (t *Task) endOverstay() {
	if t.overstay.state.Load() == overstays && t.overstay.state.CompareAndSwap(overstays, overstayEnded) {
		t.run.Worker.Counts.Overstaying.Add(-1)
		t.log(slog.LevelInfo, engine.EventOverstayEnded, "a function returned long after its context had ended")
	}
}

// checkOverstay warns, once, when the function has not returned for so long after its context had ended.
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
		t.endOverstay() // it has returned meanwhile, and may not have seen that it was reported
	}
}

// causeOfEnd is why the context of a function has ended that could run until the given time after the task began.
func (t *Task) CauseOfEnd(until time.Duration) error {
	if cause := context.Cause(t.ctx); cause != nil {
		return cause
	}
	if deadline := t.claimed.DeadlineAt; !deadline.IsZero() && !deadline.After(t.Begun.Add(until)) {
		return engine.ErrDeadline
	}
	return engine.ErrStartToClose
}

// checkOverstays looks at all functions of the worker.
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
