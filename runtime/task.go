package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// task is one leased execution in a worker, from the reply that leased it to the report of its end.
type task struct {
	lease
	run *workerRun

	ctx    context.Context
	cancel context.CancelCauseFunc

	lastBeat atomic.Pointer[time.Time]
	// lastProgress is when progress was recorded last; nil before.
	lastProgress atomic.Pointer[time.Time]
	// reportingProgress is full while a report is under way. It is there once lastProgress is, thanks to firstProgress.
	reportingProgress chan struct{}
	firstProgress     sync.Once
	settled           atomic.Bool // somebody has reported, or must report, how the attempt ended
	// journal is what the execution's steps and waits have brought.
	journal journal
	// outcomeUnknown is set when the engine may not know that the attempt is over, so that its admissions are not given back.
	outcomeUnknown atomic.Bool
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

func newTask(s *workerRun, from laneShard, claimed enginerpc.ClaimedExecution, sentAt time.Time) *task {
	t := &task{lease: lease{shard: from, claimed: claimed, begun: time.Now()}, run: s}
	t.ctx, t.cancel = context.WithCancelCause(extractTrace(s.base, claimed.TraceContext))
	t.extendLease(sentAt)
	return t
}

// name is how the log calls the task.
func (t *task) name() string {
	return fmt.Sprintf("%s/%s/%s", t.claimed.FlowName, t.claimed.RunID, t.claimed.Node)
}

func (t *task) log(level slog.Level, event logEvent, message string, attrs ...slog.Attr) {
	attrs = append(attrs, event.attr(), slog.String("flow", t.claimed.FlowName), slog.String("run", t.claimed.RunID),
		slog.String("node", t.claimed.Node), slog.String("execution", string(t.claimed.ExecutionID)),
		slog.Int("attempt", int(t.claimed.AttemptIndex)+1))
	t.run.session.logger.LogAttrs(t.ctx, level, "flowfabric: "+message, attrs...)
}

// ended measures the attempt.
func (t *task) ended(outcome string) {
	telemetry := t.run.session.telemetry
	telemetry.record(t.run.base, telemetry.attempts, time.Since(t.begun), labels{"activity", t.claimed.Kind, outcome})
}

// unreported is how the log calls an end of which the engine may not know, by its kind.
var unreported = map[outcomeKind]struct {
	event   logEvent
	message string
}{
	outcomeKindCompleted:   {eventResultLost, "result was not committed"},
	outcomeKindFailed:      {eventFailureLost, "failure was not recorded"},
	outcomeKindSuspended:   {eventSuspensionLost, "execution was not suspended"},
	outcomeKindAwaitsChild: {eventSuspensionLost, "execution was not put aside"},
	outcomeKindReleased:    {eventReturnFailed, "execution was not given back, its lease runs out instead"},
}

// reported measures what came of a report of the end of the attempt.
func (t *task) reported(kind outcomeKind, r *report) {
	if r.metric != "" {
		t.ended(r.metric)
	}
	if kind == outcomeKindCompleted {
		telemetry := t.run.session.telemetry
		telemetry.record(t.run.base, telemetry.commits, r.committing, labels{"activity", t.claimed.Kind, r.metric})
	}
	if r.err != nil {
		t.outcomeUnknown.Store(true)
		lost := unreported[kind]
		t.log(slog.LevelWarn, lost.event, lost.message, slog.Any("error", r.err))
	}
}

// settle reports whether the caller is the one who may report the end of the attempt.
func (t *task) settle() bool { return t.settled.CompareAndSwap(false, true) }

// endedByEngine ends the function's context; there is nothing left to report.
func (t *task) endedByEngine(cause error) {
	t.settle()
	t.cancel(cause)
}

func (t *task) extendLease(sentAt time.Time) { t.extend(sentAt, t.run.worker.config.lease) }

// reporting is the context of a call that reports for the attempt: it lives as long as the lease does by now.
func (t *task) reporting() (context.Context, context.CancelFunc) {
	return context.WithDeadline(t.run.base, t.leaseEnd())
}

// runAgain lets the task run again, unless its context has ended meanwhile: then its execution is to be released if the worker
// stops, and nothing is to be done otherwise.
func (t *task) runAgain() (again, release bool) {
	// Whoever ended the context meanwhile has left the report to this task.
	t.settled.Store(false)
	if t.ctx.Err() == nil {
		return true, false
	}
	return false, errors.Is(context.Cause(t.ctx), ErrStopping) && t.settle()
}
