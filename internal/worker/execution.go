package worker

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

// execution is the view of a task that the functions of package activity use. It implements the interfaces of
// package activitycontext for one call of the activity's function.
type execution struct {
	stepRecorder
	task  *Task
	until time.Time
}

// Info implements activity.Info.
func (e *execution) Info() activitycontext.Info {
	c := e.task.claimed
	return activitycontext.Info{
		Flow: c.FlowName, FlowID: string(c.FlowID), RunID: c.RunID, Node: c.Node, ExecutionID: string(c.ExecutionID),
		Attempt: int(c.AttemptIndex) + 1, StartedAt: e.task.begun, Deadline: e.until, Kind: c.Kind,
		Lane: string(e.task.shard.Lane), Tags: tagsOf(c.Tags), AttemptID: string(c.AttemptID),
		LeaseID:    string(c.LeaseID),
		LeaseEpoch: int64(c.LeaseEpoch),
	}
}

// Batches implements activity.NewBatch: the worker gathers its executions itself.
func (e *execution) Batches() *activitycontext.BatchSpace { return &e.task.run.batches }

// LeaseHealthy implements activity.LeaseHealthy: it reports whether the attempt is unsettled and its lease
// lasts.
func (e *execution) LeaseHealthy() bool {
	return !e.task.settled.Load() && time.Now().Before(e.task.leaseEnd())
}

// Heartbeat implements activity.Heartbeat: it records the time and returns the cause if ctx has ended.
func (e *execution) Heartbeat(ctx context.Context) error {
	now := time.Now()
	e.task.lastBeat.Store(&now)
	return context.Cause(ctx)
}

// Progress implements activity.Progress. Of the reports within a progressPause it records the newest.
func (e *execution) Progress(ctx context.Context, percent float64, message string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	e.task.progress.report(percent, message)
	return nil
}

// Emit implements activitycontext.Steps.
func (e *execution) Emit(ctx context.Context, frame activitycontext.Frame) error {
	return e.task.frames.emitter(&e.task.attempt).emit(ctx, frame)
}

// Logger implements activitycontext.Logs.
func (e *execution) Logger() *slog.Logger { return e.task.logs.Logger() }

// ReportUsage implements activitycontext.Budgets.
func (e *execution) ReportUsage(ctx context.Context, usage []activitycontext.Usage, key string) error {
	return e.task.usage.reportAll(ctx, usage, key)
}

// Reserve implements activitycontext.Budgets.
func (e *execution) Reserve(ctx context.Context, dimension string, n int64) (activitycontext.Reservation, error) {
	return e.task.usage.reserve(ctx, dimension, n)
}

// BudgetAmounts implements activitycontext.Budgets.
func (e *execution) BudgetAmounts(ctx context.Context) ([]activitycontext.BudgetAmount, error) {
	return e.task.usage.amounts(ctx)
}

var (
	_ activitycontext.Steps   = (*execution)(nil)
	_ activitycontext.Budgets = (*execution)(nil)
	_ activitycontext.Logs    = (*execution)(nil)
)

// tagsOf decodes the tags of a claim; nil if there are none.
func tagsOf(data []byte) map[string]string {
	var tags map[string]string
	if len(data) > 0 {
		_ = json.Unmarshal(data, &tags) // the engine stores no other form
	}
	return tags
}
