package worker

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// execution is the view of a task that the functions of package activity use. It implements the interfaces of
// package activitycontext for one call of the activity's function.
type execution struct {
	stepCounts
	task  *Task
	until time.Time
	// waiting is the first suspension that Await returned to the function; nil before.
	waiting atomic.Pointer[activitycontext.Suspension]
}

// Info implements activity.Info.
func (e *execution) Info() activitycontext.Info {
	c := &e.task.claimed
	return activitycontext.Info{
		Flow: c.FlowName, FlowID: string(c.FlowID), RunID: c.RunID, Node: c.Node, ExecutionID: string(c.ExecutionID),
		Attempt: int(c.AttemptIndex) + 1, StartedAt: e.task.Begun, Deadline: e.until,
	}
}

// LeaseHealthy implements activity.LeaseHealthy: it reports whether the attempt is unsettled and its lease
// lasts.
func (e *execution) LeaseHealthy() bool {
	return !e.task.Settled.Load() && time.Now().Before(e.task.leaseEnd())
}

// Heartbeat implements activity.Heartbeat: it records the time and returns the cause if ctx has ended.
func (e *execution) Heartbeat(ctx context.Context) error {
	now := time.Now()
	e.task.lastBeat.Store(&now)
	return context.Cause(ctx)
}

// Progress implements activity.Progress. It records at most one report in progressPause and drops others.
func (e *execution) Progress(ctx context.Context, percent float64, message string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	e.task.firstProgress.Do(func() { e.task.reportingProgress = make(chan struct{}, 1) })
	now := time.Now()
	last := e.task.lastProgress.Load()
	if last != nil && now.Sub(*last) < progressPause || !e.task.lastProgress.CompareAndSwap(last, &now) {
		return nil
	}
	// Reports are sent in the background, since the engine may be unavailable. While one is in flight, others
	// are dropped.
	select {
	case e.task.reportingProgress <- struct{}{}:
		e.task.run.background.start(func() {
			defer func() { <-e.task.reportingProgress }()
			e.task.recordProgress(percent, message)
		})
	default:
	}
	return nil
}

// awaitProgress waits up to progressPause for a progress report in flight, before the end of the attempt is
// reported.
func (t *Task) awaitProgress() {
	if t.lastProgress.Load() == nil {
		return
	}
	timer := time.NewTimer(progressPause)
	defer timer.Stop()
	select {
	case t.reportingProgress <- struct{}{}:
	case <-timer.C:
	}
}

// recordProgress sends one progress report. An error is logged at debug level.
func (t *Task) recordProgress(percent float64, message string) {
	_, err := t.run.Session.Backend.UpdateProgress(t.ctx, enginerpc.UpdateProgressCall{
		ExecutionID: t.claimed.ExecutionID, LeaseID: t.claimed.LeaseID, LeaseEpoch: t.claimed.LeaseEpoch,
		ProgressPct: strconv.FormatFloat(percent, 'f', -1, 64), ProgressMessage: message,
	})
	if err != nil && t.ctx.Err() == nil {
		t.log(slog.LevelDebug, engine.EventProgressLost, "progress was not recorded", slog.Any("error", err))
	}
}

// progressPause is the shortest time between two recorded reports, so that a loop can report in every
// iteration.
const progressPause = 100 * time.Millisecond
