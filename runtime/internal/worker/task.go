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

// task is one leased execution in a worker, from the reply that leased it to the report of its end.
type Task struct {
	lease
	run *WorkerRun

	ctx    context.Context
	Cancel context.CancelCauseFunc

	lastBeat atomic.Pointer[time.Time]
	// lastProgress is when progress was recorded last; nil before.
	lastProgress atomic.Pointer[time.Time]
	// reportingProgress is full while a report is under way. It is there once lastProgress is, thanks to firstProgress.
	reportingProgress chan struct{}
	firstProgress     sync.Once
	Settled           atomic.Bool // somebody has reported, or must report, how the attempt ended
	// journal is what the execution's steps and waits have brought.
	journal journal
	// outcomeUnknown is set when the engine may not know that the attempt is over, so that its admissions are not given back.
	OutcomeUnknown atomic.Bool
	// frames sends what the function emits; nil before it emits something.
	frames atomic.Pointer[emitter]
	usage  budgetUse
	// exited is how an attempt ended whose function ended its goroutine; nil for others.
	exited   error
	overstay overstay
	// places tells whether the execution has got its places; nil when nobody has asked for them.
	permits chan bool
	// placed tells that it has, by its own asking; pool is where its permit comes from, if from one.
	permitted       bool
	pool            *permitPool
	permitsReturned bool // its permits are on their way back
}

func NewTask(s *WorkerRun, from dispatch.LaneShard, claimed enginerpc.ClaimedExecution, sentAt time.Time) *Task {
	t := &Task{lease: lease{shard: from, claimed: claimed, Begun: time.Now()}, run: s}
	t.ctx, t.Cancel = context.WithCancelCause(engine.ExtractTrace(s.Base, claimed.TraceContext))
	t.extendLease(sentAt)
	return t
}

// name is how the log calls the task.
func (t *Task) name() string {
	return fmt.Sprintf("%s/%s/%s", t.claimed.FlowName, t.claimed.RunID, t.claimed.Node)
}

func (t *Task) log(level slog.Level, event engine.LogEvent, message string, attrs ...slog.Attr) {
	attrs = append(attrs, event.Attr(), slog.String("flow", t.claimed.FlowName), slog.String("run", t.claimed.RunID),
		slog.String("node", t.claimed.Node), slog.String("execution", string(t.claimed.ExecutionID)),
		slog.Int("attempt", int(t.claimed.AttemptIndex)+1))
	t.run.Session.Logger.LogAttrs(t.ctx, level, "flowfabric: "+message, attrs...)
}

// ended measures the attempt.
func (t *Task) ended(outcome string) {
	telemetry := t.run.Session.Telemetry
	telemetry.Record(t.run.Base, telemetry.Attempts, time.Since(t.Begun), engine.Labels{Key: "activity", Value: t.claimed.Kind, Outcome: outcome})
}

// unreported is how the log calls an end of which the engine may not know, by its kind.
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

// reported measures what came of a report of the end of the attempt.
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

// settle reports whether the caller is the one who may report the end of the attempt.
func (t *Task) settle() bool { return t.Settled.CompareAndSwap(false, true) }

// endedByEngine ends the function's context; there is nothing left to report.
func (t *Task) endedByEngine(cause error) {
	t.settle()
	t.Cancel(cause)
}

func (t *Task) extendLease(sentAt time.Time) { t.extend(sentAt, t.run.Worker.Config.Lease) }

// reporting is the context of a call that reports for the attempt: it lives as long as the lease does by now.
func (t *Task) reporting() (context.Context, context.CancelFunc) {
	return context.WithDeadline(t.run.Base, t.leaseEnd())
}

// retryUntilKnown makes a call that may be sent twice again while the engine is unavailable: until ctx ends, or, where a function
// has made ctx independent of its own, until the lease has.
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

// runAgain lets the task run again, unless its context has ended meanwhile: then its execution is to be released if the worker
// stops, and nothing is to be done otherwise.
func (t *Task) runAgain() (again, release bool) {
	// Whoever ended the context meanwhile has left the report to this task.
	t.Settled.Store(false)
	if t.ctx.Err() == nil {
		return true, false
	}
	return false, errors.Is(context.Cause(t.ctx), engine.ErrStopping) && t.settle()
}
