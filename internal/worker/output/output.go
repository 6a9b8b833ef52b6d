package output

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// Output is the output of the function of an attempt before its result: frames, logs and progress. Its parts are
// created on first use.
type Output struct {
	attempt  *attempt.Attempt
	config   *LogConfig
	progress progressReports
	frames   frameOutput
	logs     logOutput
}

// Init binds the output to an attempt. config defines which of its log lines are stored.
func (o *Output) Init(a *attempt.Attempt, config *LogConfig) {
	o.attempt, o.config, o.logs.output = a, config, o
}

// emitter returns the sender of the attempt's frames.
func (o *Output) emitter() *emitter { return o.frames.emitter(o.attempt) }

// Emit adds a frame to the output of the attempt. It blocks while too many bytes are unsent.
func (o *Output) Emit(ctx context.Context, frame activitycontext.Frame) error {
	return o.emitter().emit(ctx, frame)
}

// ReportProgress records progress, at once or at the end of the pause since the last report.
func (o *Output) ReportProgress(percent float64, message string) {
	o.progress.report(o.attempt, percent, message)
}

// Logger returns the logger of the attempt.
func (o *Output) Logger() *slog.Logger { return o.logs.Logger() }

// LineStore returns the handler that stores lines with the attempt; nil if none are stored.
func (o *Output) LineStore() slog.Handler { return o.logs.store() }

// Panicked stores the stack of a panic in the function.
func (o *Output) Panicked(value any, stack string) { o.logs.panicked(value, stack) }

// Finish completes the progress reports, logs and frames that the function began, before the end of the attempt is
// reported.
func (o *Output) Finish() {
	o.progress.finish()
	o.logs.finish()
	o.frames.finish()
	if o.logs.finish() {
		o.frames.finish()
	}
}

// Publish stores a live value of an attempt, for activity.Publish.
func Publish(ctx context.Context, a *attempt.Attempt, key string, data []byte) error {
	store, err := a.Run.Session.Library("live values (activity.Publish)")
	if err != nil {
		return activity.NonRetryable(err)
	}
	call := enginerpc.PutLiveValueCall{
		Partition: a.Shard.Partition, ExecutionID: a.Claimed.ExecutionID, LeaseID: a.Claimed.LeaseID,
		LeaseEpoch: a.Claimed.LeaseEpoch, AttemptID: a.Claimed.AttemptID, ValueKey: key, Value: data,
	}
	err = a.RetryUntilKnown(ctx, func() error {
		_, err := store.PutLiveValue(ctx, call)
		return err
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errorcode.InvalidInput):
		return activity.NonRetryable(fmt.Errorf("%w %q: %w", activityspec.ErrLiveValue, key, err))
	case lease.IsFence(err):
		return fmt.Errorf("publish %q: %w: %w", key, engine.ErrLeaseLost, err)
	}
	return fmt.Errorf("publish %q: %w", key, err)
}
