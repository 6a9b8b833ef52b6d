package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// Task is one leased execution in a worker, from the reply that leased it to the report of its end. NewTask
// makes one.
type Task struct {
	lease
	run *WorkerRun

	ctx context.Context
	// Cancel ends the context of the function with a cause.
	Cancel context.CancelCauseFunc

	lastBeat atomic.Pointer[time.Time]
	// lastProgress is when progress was last recorded; nil before the first time.
	lastProgress atomic.Pointer[time.Time]
	// reportingProgress holds a value while a progress report is in flight. It is set before lastProgress, by
	// firstProgress.
	reportingProgress chan struct{}
	firstProgress     sync.Once
	Settled           atomic.Bool // set by the goroutine that reports the end of the attempt, or drops it
	// journal holds the results of the execution's steps and waits.
	journal journal
	// OutcomeUnknown is set if the engine may not know that the attempt has ended, so that its permits are
	// not returned.
	OutcomeUnknown atomic.Bool
	// frames sends the frames that the function emits; nil before the first one.
	frames atomic.Pointer[emitter]
	usage  budgetUse
	// exited is the error of an attempt whose function ended its goroutine; nil for others.
	exited   error
	overstay overstay
	// permits receives whether the execution has got its permits; nil if they were not requested.
	permits chan bool
	// permitted is set if the task got its permits by its own request; pool is the pool of its permit, nil if
	// it has none.
	permitted       bool
	pool            *permitPool
	permitsReturned bool // set by noteReturn, so that permits are returned once
}

// NewTask returns the task of an execution that a call sent at sentAt has leased from a shard. Its context is
// derived from the Base of the run. The caller calls Cancel when the attempt has ended.
func NewTask(s *WorkerRun, from dispatch.LaneShard, claimed enginerpc.ClaimedExecution, sentAt time.Time) *Task {
	t := &Task{lease: lease{shard: from, claimed: claimed, Begun: time.Now()}, run: s}
	t.ctx, t.Cancel = context.WithCancelCause(engine.ExtractTrace(s.Base, claimed.TraceContext))
	t.extendLease(sentAt)
	return t
}

// name returns the name of the task in errors: flow, run id and node.
func (t *Task) name() string {
	return fmt.Sprintf("%s/%s/%s", t.claimed.FlowName, t.claimed.RunID, t.claimed.Node)
}

// log writes a log record with the attributes of the attempt.
func (t *Task) log(level slog.Level, event engine.LogEvent, message string, attrs ...slog.Attr) {
	attrs = append(attrs, event.Attr(), slog.String("flow", t.claimed.FlowName), slog.String("run", t.claimed.RunID),
		slog.String("node", t.claimed.Node), slog.String("execution", string(t.claimed.ExecutionID)),
		slog.Int("attempt", int(t.claimed.AttemptIndex)+1))
	t.run.Session.Logger.LogAttrs(t.ctx, level, "flowfabric: "+message, attrs...)
}

// ended records the attempt and its outcome as a metric.
func (t *Task) ended(outcome string) {
	telemetry := t.run.Session.Telemetry
	telemetry.Record(t.run.Base, telemetry.Attempts, time.Since(t.Begun), engine.Labels{Key: "activity", Value: t.claimed.Kind, Outcome: outcome})
}

// unreported has the log event and message of an end that the engine may not know, by the kind of the end.
var unreported = map[outcomeKind]struct {
	event   engine.LogEvent
	message string
}{
	outcomeKindCompleted:   {engine.EventResultLost, "result was not committed"},
	outcomeKindFailed:      {engine.EventFailureLost, "failure was not recorded"},
	outcomeKindSuspended:   {engine.EventSuspensionLost, "execution was not suspended"},
	outcomeKindAwaitsChild: {engine.EventSuspensionLost, "execution was not put aside"},
	outcomeKindReleased:    {engine.EventReturnFailed, "execution was not given back, its lease runs out instead"},
}

// reported records metrics of a report of the attempt's end, and logs its error.
func (t *Task) reported(kind outcomeKind, r *report) {
	if r.metric != "" {
		t.ended(r.metric)
	}
	if kind == outcomeKindCompleted {
		telemetry := t.run.Session.Telemetry
		telemetry.Record(t.run.Base, telemetry.Commits, r.committing, engine.Labels{Key: "activity", Value: t.claimed.Kind, Outcome: r.metric})
	}
	if r.err != nil {
		t.OutcomeUnknown.Store(true)
		lost := unreported[kind]
		t.log(slog.LevelWarn, lost.event, lost.message, slog.Any("error", r.err))
	}
}

// settle reports whether the caller is the one that may report the end of the attempt. It returns true once,
// until runAgain reopens the task.
func (t *Task) settle() bool { return t.Settled.CompareAndSwap(false, true) }

// endedByEngine ends the function's context. The attempt is settled, so that no end is reported.
func (t *Task) endedByEngine(cause error) {
	t.settle()
	t.Cancel(cause)
}

// extendLease records that a call sent at sentAt has renewed the lease.
func (t *Task) extendLease(sentAt time.Time) { t.extend(sentAt, t.run.Worker.Config.Lease) }

// reporting returns the context of a call for the attempt; it ends with the lease as renewed by now.
func (t *Task) reporting() (context.Context, context.CancelFunc) {
	return context.WithDeadline(t.run.Base, t.leaseEnd())
}

// retryUntilKnown repeats a call that may be sent twice while the engine is unavailable. It ends with ctx, and returns its
// cause; if a function has detached ctx from its own context, it ends with the lease.
func (t *Task) retryUntilKnown(ctx context.Context, send func() error) error {
	again := engine.RetryPolicy{Pause: reportPause, Retryable: func(err error) bool {
		return engine.IsUnavailable(err) && (t.ctx.Err() == nil || time.Now().Before(t.leaseEnd()))
	}}
	err := engine.RetryUntilKnown(ctx, again, func(bool) error { return send() })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// runAgain reopens a settled task so that its function can run again, unless its context has ended meanwhile.
// In that case release reports whether the execution is to be released because the worker stops.
func (t *Task) runAgain() (again, release bool) {
	// A goroutine that ended the context while the task was settled left the report to this task.
	t.Settled.Store(false)
	if t.ctx.Err() == nil {
		return true, false
	}
	return false, errors.Is(context.Cause(t.ctx), engine.ErrStopping) && t.settle()
}
