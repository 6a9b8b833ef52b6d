package task

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/worker/journal"
	"github.com/flowfabric/flowfabric-go/internal/worker/output"
)

// Execution is the view of a task that the functions of package activity use. It implements the interfaces of
// package activitycontext for one call of the activity's function.
type Execution struct {
	journal.Recorder
	Task  *Task
	Until time.Time
	ctx   activitycontext.Context
}

// Context returns the context of the function, derived from ctx. It is called once.
func (e *Execution) Context(ctx context.Context) context.Context { return e.ctx.Init(ctx, e) }

// Info implements activity.Info.
func (e *Execution) Info() activitycontext.Info {
	c := e.Task.Claimed
	return activitycontext.Info{
		Flow: c.FlowName, FlowID: string(c.FlowID), RunID: c.RunID, Node: c.Node, ExecutionID: string(c.ExecutionID),
		Attempt: int(c.AttemptIndex) + 1, StartedAt: e.Task.Begun, Deadline: e.Until, Kind: c.Kind,
		Lane: string(e.Task.Shard.Lane), Tags: tagsOf(c.Tags), AttemptID: string(c.AttemptID),
		LeaseID:    string(c.LeaseID),
		LeaseEpoch: int64(c.LeaseEpoch),
	}
}

// Batches implements activity.NewBatch: the worker gathers its executions itself.
func (e *Execution) Batches() *activitycontext.BatchSpace { return &e.Task.Services.Batches }

// LeaseHealthy implements activity.LeaseHealthy: it reports whether the attempt is unsettled and its lease
// lasts.
func (e *Execution) LeaseHealthy() bool {
	return !e.Task.Settled.Load() && time.Now().Before(e.Task.LeaseEnd())
}

// Heartbeat implements activity.Heartbeat: it records the time and returns the cause if ctx has ended.
func (e *Execution) Heartbeat(ctx context.Context) error {
	now := time.Now()
	e.Task.LastBeat.Store(&now)
	return context.Cause(ctx)
}

// Progress implements activity.Progress. Of the reports within a progressPause it records the newest.
func (e *Execution) Progress(ctx context.Context, percent float64, message string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	e.Task.Output.ReportProgress(percent, message)
	return nil
}

// Emit implements activitycontext.Steps.
func (e *Execution) Emit(ctx context.Context, frame activitycontext.Frame) error {
	return e.Task.Output.Emit(ctx, frame)
}

// Logger implements activitycontext.Logs.
func (e *Execution) Logger() *slog.Logger { return e.Task.Output.Logger() }

// Publish implements activitycontext.LiveValues.
func (e *Execution) Publish(ctx context.Context, key string, data []byte) error {
	return output.Publish(ctx, &e.Task.Attempt, key, data)
}

// ReportUsage implements activitycontext.Budgets.
func (e *Execution) ReportUsage(ctx context.Context, usage []activitycontext.Usage, key string) error {
	return e.Task.usage.ReportAll(ctx, usage, key)
}

// Reserve implements activitycontext.Budgets.
func (e *Execution) Reserve(ctx context.Context, dimension string, n int64) (activitycontext.Reservation, error) {
	return e.Task.usage.Reserve(ctx, dimension, n)
}

// BudgetAmounts implements activitycontext.Budgets.
func (e *Execution) BudgetAmounts(ctx context.Context) ([]fabrictype.BudgetAmount, error) {
	return e.Task.usage.Amounts(ctx)
}

var (
	_ activitycontext.Steps      = (*Execution)(nil)
	_ activitycontext.Budgets    = (*Execution)(nil)
	_ activitycontext.Logs       = (*Execution)(nil)
	_ activitycontext.LiveValues = (*Execution)(nil)
)

// tagsOf decodes the tags of a claim; nil if there are none.
func tagsOf(data []byte) map[string]string {
	var tags map[string]string
	if len(data) > 0 {
		_ = json.Unmarshal(data, &tags) // the engine stores no other form
	}
	return tags
}
