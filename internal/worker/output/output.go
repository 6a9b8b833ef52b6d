package output

import (
	"context"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
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
