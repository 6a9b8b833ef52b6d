package attempt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// Attempt is one attempt of a leased execution: the lease, the context of the function, and whether the end of the
// attempt has been reported. It sends calls and writes logs about the execution.
type Attempt struct {
	lease.Lease
	Run *Shared

	Ctx context.Context
	// Cancel ends the context of the function with a cause.
	Cancel  context.CancelCauseFunc
	Settled atomic.Bool // set by the goroutine that reports the end of the attempt, or drops it
	// OutcomeUnknown is set if the engine may not know that the attempt has ended, so that its permits are
	// not returned.
	OutcomeUnknown atomic.Bool
	// Awaited is set if the engine, which has ended the execution, may wait until the function has returned.
	Awaited atomic.Bool
	// Stack is where the function panicked; empty unless it did.
	Stack    string
	overstay overstay
}

// Init begins the attempt at an execution that a call sent at sentAt has leased from a shard. It keeps claimed, which
// the caller must not change afterwards. The context of the attempt is derived from the base of the run. The caller
// calls Cancel when the attempt has ended.
func (a *Attempt) Init(run *Shared, from dispatch.LaneShard, claimed *enginerpc.ClaimedExecution, sentAt time.Time) {
	a.Run, a.Shard, a.Source, a.Claimed, a.Begun = run, from, from, claimed, time.Now()
	// A claim from a shard can lease executions of all partitions that share the order of its lane.
	if p, err := keyspace.PartitionOf(claimed.ExecutionID); err == nil {
		a.Shard.Partition = p
	}
	a.Ctx, a.Cancel = context.WithCancelCause(run.Session.Resume(run.Base, claimed.TraceContext))
	a.ExtendLease(sentAt)
}

// Name returns the name of the task in errors: flow, run id and node.
func (a *Attempt) Name() string {
	return fmt.Sprintf("%s/%s/%s", a.Claimed.FlowName, a.Claimed.RunID, a.Claimed.Node)
}

// Log writes a log record with the attributes of the attempt.
func (a *Attempt) Log(level slog.Level, event observe.LogEvent, message string, attrs ...slog.Attr) {
	attrs = append(attrs, event.Attr(), slog.String("flow", a.Claimed.FlowName), slog.String("run", a.Claimed.RunID),
		slog.String("node", a.Claimed.Node), slog.String("execution", string(a.Claimed.ExecutionID)),
		slog.Int("attempt", int(a.Claimed.AttemptIndex)+1))
	a.Run.Session.Logger.LogAttrs(a.Ctx, level, "flowfabric: "+message, attrs...)
}

// Ended records the attempt and its outcome as a metric.
func (a *Attempt) Ended(outcome string) {
	telemetry := a.Run.Session.Telemetry
	telemetry.Record(a.Run.Base, telemetry.Attempts, time.Since(a.Begun),
		observe.Labels{Key: "activity", Value: a.Claimed.Kind, Outcome: outcome})
}

// unreported has the log event and message of an end that the engine may not know, by the kind of the end.
var unreported = map[completion.Kind]struct {
	event   observe.LogEvent
	message string
}{
	completion.KindCompleted: {observe.EventResultLost, "the engine did not commit the result"},
	completion.KindFailed:    {observe.EventFailureLost, "the engine did not record the failure"},
	completion.KindSuspended: {observe.EventSuspensionLost, "the engine did not suspend the execution"},
	completion.KindAwaitsChild: {observe.EventSuspensionLost,
		"the engine did not suspend the execution for its child run"},
	completion.KindSkipped:   {observe.EventResultLost, "the engine did not skip the node"},
	completion.KindContinued: {observe.EventSuspensionLost, "the engine did not let the execution go on as new"},
	completion.KindCancelled: {observe.EventFailureLost, "the engine did not cancel the execution"},
	completion.KindDelayed:   {observe.EventSuspensionLost, "the engine did not delay the execution"},
	completion.KindAwaitsChildren: {observe.EventSuspensionLost,
		"the engine did not suspend the execution for its dependencies"},
	completion.KindAwaitsSignals: {observe.EventSuspensionLost, "the engine did not suspend the execution"},
	completion.KindReleased: {
		observe.EventReturnFailed, "the worker could not release the execution, whose lease expires instead",
	},
}

// Reported records metrics of a report of the attempt's end, and logs its error.
func (a *Attempt) Reported(kind completion.Kind, r *completion.Report) {
	if r.Metric != "" {
		a.Ended(r.Metric)
	}
	if kind == completion.KindCompleted && r.Refused == nil {
		telemetry := a.Run.Session.Telemetry
		telemetry.Record(a.Run.Base, telemetry.Commits, r.Committing,
			observe.Labels{Key: "activity", Value: a.Claimed.Kind, Outcome: r.Metric})
	}
	if r.Err != nil {
		a.OutcomeUnknown.Store(true)
		if lease.IsFence(r.Err) {
			a.Awaited.Store(true) // perhaps: the engine may have ended the execution in the meantime
		}
		lost := unreported[kind]
		a.Log(slog.LevelWarn, lost.event, lost.message, slog.Any("error", r.Err))
	}
}

// Settle reports whether the caller is the one that may report the end of the attempt. It returns true once,
// until RunAgain reopens the task.
func (a *Attempt) Settle() bool { return a.Settled.CompareAndSwap(false, true) }

// EndedByEngine ends the function's context. The attempt is settled, so that no end is reported.
func (a *Attempt) EndedByEngine(cause error) {
	a.Settle()
	a.Cancel(cause)
}

// ReportReturned reports to the engine that the function of an execution that the engine has ended has returned. If the
// call fails, the engine waits for the end of the lease.
func (a *Attempt) ReportReturned() {
	call := enginerpc.EndStoppedCall{
		Partition: a.Shard.Partition, ExecutionID: a.Claimed.ExecutionID, LeaseID: a.Claimed.LeaseID,
	}
	_ = a.Run.Completer.UntilKnown(&a.Lease, func(ctx context.Context, _ bool) error {
		_, err := a.Run.Session.Core.EndStopped(ctx, call)
		return err
	})
}

// KeepsLease reports whether the worker still holds the lease, counted from the time at which it requested it, and
// ends the context of an attempt that has lost it. This check detects that the process was stopped for a while, so
// that another worker may have the execution.
func (a *Attempt) KeepsLease() bool {
	if a.LeaseEnded() {
		a.Cancel(engine.ErrLeaseLost)
	}
	return !errors.Is(context.Cause(a.Ctx), engine.ErrLeaseLost)
}

// ExtendLease records that a call sent at sentAt has renewed the lease.
func (a *Attempt) ExtendLease(sentAt time.Time) { a.Extend(sentAt, a.Run.LeaseTTL) }

// Reporting returns the context of a call for the attempt; it ends with the lease as renewed by now.
func (a *Attempt) Reporting() (context.Context, context.CancelFunc) {
	return context.WithDeadline(a.Run.Base, a.LeaseEnd())
}

// RetryUntilKnown repeats a call that may be sent twice while the engine is unavailable. It ends with ctx, and returns
// its cause; if a function has detached ctx from its own context, it ends with the lease.
func (a *Attempt) RetryUntilKnown(ctx context.Context, send func() error) error {
	if over := context.Cause(a.Run.Base); over != nil {
		return over // the run has returned before the function
	}
	again := retry.Policy{Pause: lease.ReportPause, Retryable: func(err error) bool {
		return retry.IsUnavailable(err) && (a.Ctx.Err() == nil || time.Now().Before(a.LeaseEnd()))
	}}
	err := retry.UntilKnown(ctx, again, func(bool) error { return send() })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// RunAgain reopens a settled task so that its function can run again, unless its context has ended in the meantime. In
// that case release reports whether the caller has to release the execution because the worker stops.
func (a *Attempt) RunAgain() (again, release bool) {
	// A goroutine that ended the context while the task was settled left the report to this task.
	a.Settled.Store(false)
	if a.Ctx.Err() == nil {
		return true, false
	}
	return false, errors.Is(context.Cause(a.Ctx), engine.ErrStopping) && a.Settle()
}

// OutcomeOf settles the attempt and returns the outcome to report for the function's result and error.
func (a *Attempt) OutcomeOf(result []byte, err error) completion.Outcome {
	dropped := completion.Outcome{Err: err}
	mayReport := a.Settle()
	cause := context.Cause(a.Ctx)
	switch {
	case errors.Is(cause, engine.ErrLeaseLost):
		a.OutcomeUnknown.Store(true)
		a.Ended(observe.OutcomeLeaseLost)
		a.Log(slog.LevelWarn, observe.EventLeaseLost, "the worker lost the lease and drops the result of the attempt",
			slog.Any("cause", cause), slog.Any("error", err))
		return dropped
	case !mayReport:
		a.Ended(observe.OutcomeEndedByEngine)
		a.Log(slog.LevelDebug, observe.EventAttemptEnded,
			"the worker reports nothing, as the engine has ended the attempt",
			slog.Any("cause", cause))
		return dropped
	case err == nil:
		return completion.Outcome{Kind: completion.KindCompleted, Result: result}
	case completion.ChildWaitIn(err) != nil:
		return completion.Outcome{Kind: completion.KindAwaitsChild, Err: err, Child: completion.ChildWaitIn(err)}
	case completion.AsResultSkipped(err) != nil:
		return completion.Outcome{Kind: completion.KindSkipped, Err: err, Skipped: completion.AsResultSkipped(err)}
	}
	o, marked := completion.Marked(err)
	switch {
	case marked && o.Kind != completion.KindReleased:
		return o
	case errors.Is(cause, engine.ErrStopping):
		return completion.Outcome{Kind: completion.KindReleased, Err: err, Reason: completion.ReasonStopped}
	case marked && o.Err == nil:
		return o
	case marked:
		a.Log(slog.LevelInfo, observe.EventBudgetWait, "the worker released an execution that waits for a budget",
			slog.Any("error", err))
		return o
	case errors.Is(err, engine.ErrDeadline):
		a.Awaited.Store(true) // by the engine, which ends the execution by its own clock
		a.Ended(observe.OutcomeEndedByEngine)
		a.Log(slog.LevelInfo, observe.EventAttemptDeadline, "the deadline of the run ended the attempt")
		return dropped
	case errors.Is(err, engine.ErrStartToClose):
		err = activity.Category(err, activityspec.CategoryTimeout)
	}
	a.LogFailure(err)
	return completion.Outcome{Kind: completion.KindFailed, Err: err, Stack: a.Stack}
}

// LogFailure logs the failure of the attempt with its category.
func (a *Attempt) LogFailure(err error) {
	a.Log(slog.LevelWarn, observe.EventAttemptFailed, "the attempt failed", slog.Any("error", err),
		slog.String("category", activityspec.CategoryOf(err)))
}

// Report reports the end of the attempt, and requests up to slots executions of the same shard in exchange. If the
// engine refuses to complete or suspend the execution, the attempt fails instead.
func (a *Attempt) Report(ended completion.Outcome, slots int) completion.Report {
	reported := a.Run.Completer.Report(&a.Lease, ended, slots)
	a.Reported(ended.Kind, &reported)
	if reported.Refused == nil {
		return reported
	}
	a.LogFailure(reported.Refused)
	failed := a.Report(completion.Outcome{Kind: completion.KindFailed, Err: reported.Refused}, 0)
	failed.Handoff.Add(reported.Handoff)
	return failed
}

// IsReported reports whether the end of the attempt has been reported to the engine.
func (a *Attempt) IsReported() bool { return a.Settled.Load() && !a.OutcomeUnknown.Load() }

// Background are goroutines that can be started until Finish is called. The zero value is ready.
type Background struct {
	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

// Start runs a function in a goroutine, unless Finish was called.
func (e *Background) Start(do func()) (started bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.running.Go(do)
	}
	return !e.over
}

// Finish waits for the running goroutines; Start starts none from now on.
func (e *Background) Finish() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.running.Wait()
}

// Shared contains the components that all attempts of a worker run use: the connection to the engine, and the senders
// that join calls of several attempts.
type Shared struct {
	// Session is the worker's connection to the engine.
	Session *engine.Session
	Core    *enginerpc.Conn
	// Base has the values of the context of Worker.Run. It ends when Run returns, so that no call outlives it.
	Base context.Context
	// LeaseTTL is the duration of leases.
	LeaseTTL time.Duration
	// Background runs calls that messages and replies trigger.
	Background Background
	// Completer reports how executions end.
	Completer *completion.Completer
	// Doubt is set by a failed call, after which the engine may have leases that this worker does not know.
	Doubt lease.Uncertainty
	// Overstays counts the functions that do not return after their contexts have ended.
	Overstays *OverstayCounts
}
