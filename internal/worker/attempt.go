package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// attempt is one attempt of a leased execution: the lease, the context of the function, and whether the end of the
// attempt has been reported. It sends and logs what concerns the execution.
type attempt struct {
	lease
	run *services

	ctx context.Context
	// cancel ends the context of the function with a cause.
	cancel  context.CancelCauseFunc
	settled atomic.Bool // set by the goroutine that reports the end of the attempt, or drops it
	// outcomeUnknown is set if the engine may not know that the attempt has ended, so that its permits are
	// not returned.
	outcomeUnknown atomic.Bool
	// awaited is set if the engine, which has ended the execution, may wait until the function has returned.
	awaited atomic.Bool
	// stack is where the function panicked; empty unless it did.
	stack string
}

// name returns the name of the task in errors: flow, run id and node.
func (a *attempt) name() string {
	return fmt.Sprintf("%s/%s/%s", a.claimed.FlowName, a.claimed.RunID, a.claimed.Node)
}

// log writes a log record with the attributes of the attempt.
func (a *attempt) log(level slog.Level, event engine.LogEvent, message string, attrs ...slog.Attr) {
	attrs = append(attrs, event.Attr(), slog.String("flow", a.claimed.FlowName), slog.String("run", a.claimed.RunID),
		slog.String("node", a.claimed.Node), slog.String("execution", string(a.claimed.ExecutionID)),
		slog.Int("attempt", int(a.claimed.AttemptIndex)+1))
	a.run.session.Logger.LogAttrs(a.ctx, level, "flowfabric: "+message, attrs...)
}

// ended records the attempt and its outcome as a metric.
func (a *attempt) ended(outcome string) {
	telemetry := a.run.session.Telemetry
	telemetry.Record(a.run.base, telemetry.Attempts, time.Since(a.begun),
		engine.Labels{Key: "activity", Value: a.claimed.Kind, Outcome: outcome})
}

// unreported has the log event and message of an end that the engine may not know, by the kind of the end.
var unreported = map[outcomeKind]struct {
	event   engine.LogEvent
	message string
}{
	outcomeKindCompleted: {engine.EventResultLost, "the engine did not commit the result"},
	outcomeKindFailed:    {engine.EventFailureLost, "the engine did not record the failure"},
	outcomeKindSuspended: {engine.EventSuspensionLost, "the engine did not suspend the execution"},
	outcomeKindAwaitsChild: {engine.EventSuspensionLost,
		"the engine did not suspend the execution for its child run"},
	outcomeKindSkipped:   {engine.EventResultLost, "the engine did not skip the node"},
	outcomeKindContinued: {engine.EventSuspensionLost, "the engine did not let the execution go on as new"},
	outcomeKindCancelled: {engine.EventFailureLost, "the engine did not cancel the execution"},
	outcomeKindDelayed:   {engine.EventSuspensionLost, "the engine did not delay the execution"},
	outcomeKindAwaitsChildren: {engine.EventSuspensionLost,
		"the engine did not suspend the execution for its dependencies"},
	outcomeKindAwaitsSignals: {engine.EventSuspensionLost, "the engine did not suspend the execution"},
	outcomeKindReleased: {
		engine.EventReturnFailed, "the worker could not release the execution, whose lease expires instead",
	},
}

// reported records metrics of a report of the attempt's end, and logs its error.
func (a *attempt) reported(kind outcomeKind, r *report) {
	if r.metric != "" {
		a.ended(r.metric)
	}
	if kind == outcomeKindCompleted && r.refused == nil {
		telemetry := a.run.session.Telemetry
		telemetry.Record(a.run.base, telemetry.Commits, r.committing,
			engine.Labels{Key: "activity", Value: a.claimed.Kind, Outcome: r.metric})
	}
	if r.err != nil {
		a.outcomeUnknown.Store(true)
		if isFence(r.err) {
			a.awaited.Store(true) // perhaps: the engine may have ended the execution meanwhile
		}
		lost := unreported[kind]
		a.log(slog.LevelWarn, lost.event, lost.message, slog.Any("error", r.err))
	}
}

// settle reports whether the caller is the one that may report the end of the attempt. It returns true once,
// until runAgain reopens the task.
func (a *attempt) settle() bool { return a.settled.CompareAndSwap(false, true) }

// endedByEngine ends the function's context. The attempt is settled, so that no end is reported.
func (a *attempt) endedByEngine(cause error) {
	a.settle()
	a.cancel(cause)
}

// tellReturned tells the engine that the function has returned of an execution that the engine has ended. If that
// fails, the engine waits for the end of the lease.
func (a *attempt) tellReturned() {
	call := enginerpc.EndStoppedCall{
		Partition: a.shard.Partition, ExecutionID: a.claimed.ExecutionID, LeaseID: a.claimed.LeaseID,
	}
	_ = a.run.completer.untilKnown(&a.lease, func(ctx context.Context, _ bool) error {
		_, err := a.run.session.Core.EndStopped(ctx, call)
		return err
	})
}

// extendLease records that a call sent at sentAt has renewed the lease.
func (a *attempt) extendLease(sentAt time.Time) { a.extend(sentAt, a.run.worker.config.Lease) }

// reporting returns the context of a call for the attempt; it ends with the lease as renewed by now.
func (a *attempt) reporting() (context.Context, context.CancelFunc) {
	return context.WithDeadline(a.run.base, a.leaseEnd())
}

// retryUntilKnown repeats a call that may be sent twice while the engine is unavailable. It ends with ctx, and returns
// its cause; if a function has detached ctx from its own context, it ends with the lease.
func (a *attempt) retryUntilKnown(ctx context.Context, send func() error) error {
	if over := context.Cause(a.run.base); over != nil {
		return over // the run has returned before the function
	}
	again := engine.RetryPolicy{Pause: reportPause, Retryable: func(err error) bool {
		return engine.IsUnavailable(err) && (a.ctx.Err() == nil || time.Now().Before(a.leaseEnd()))
	}}
	err := engine.RetryUntilKnown(ctx, again, func(bool) error { return send() })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// runAgain reopens a settled task so that its function can run again, unless its context has ended meanwhile.
// In that case release reports whether the execution is to be released because the worker stops.
func (a *attempt) runAgain() (again, release bool) {
	// A goroutine that ended the context while the task was settled left the report to this task.
	a.settled.Store(false)
	if a.ctx.Err() == nil {
		return true, false
	}
	return false, errors.Is(context.Cause(a.ctx), engine.ErrStopping) && a.settle()
}

// outcomeOf settles the attempt and returns the outcome to report for the function's result and error.
func (a *attempt) outcomeOf(result []byte, err error) attemptOutcome {
	dropped := attemptOutcome{err: err}
	mayReport := a.settle()
	cause := context.Cause(a.ctx)
	switch {
	case errors.Is(cause, engine.ErrLeaseLost):
		a.outcomeUnknown.Store(true)
		a.ended(engine.OutcomeLeaseLost)
		a.log(slog.LevelWarn, engine.EventLeaseLost, "the worker lost the lease and drops the result of the attempt",
			slog.Any("cause", cause), slog.Any("error", err))
		return dropped
	case !mayReport:
		a.ended(engine.OutcomeEndedByEngine)
		a.log(slog.LevelDebug, engine.EventAttemptEnded,
			"the worker reports nothing, as the engine has ended the attempt",
			slog.Any("cause", cause))
		return dropped
	case err == nil:
		return attemptOutcome{kind: outcomeKindCompleted, result: result}
	case childWaitIn(err) != nil:
		return attemptOutcome{kind: outcomeKindAwaitsChild, err: err, child: childWaitIn(err)}
	case asResultSkipped(err) != nil:
		return attemptOutcome{kind: outcomeKindSkipped, err: err, skipped: asResultSkipped(err)}
	}
	o, marked := markedOutcome(err)
	switch {
	case marked && o.kind != outcomeKindReleased:
		return o
	case errors.Is(cause, engine.ErrStopping):
		return attemptOutcome{kind: outcomeKindReleased, err: err, reason: reasonStopped}
	case marked && o.err == nil:
		return o
	case marked:
		a.log(slog.LevelInfo, engine.EventBudgetWait, "the worker released an execution that waits for a budget",
			slog.Any("error", err))
		return o
	case errors.Is(err, engine.ErrDeadline):
		a.awaited.Store(true) // by the engine, which ends the execution by its own clock
		a.ended(engine.OutcomeEndedByEngine)
		a.log(slog.LevelInfo, engine.EventAttemptDeadline, "the deadline of the run ended the attempt")
		return dropped
	case errors.Is(err, engine.ErrStartToClose):
		err = activity.Category(err, activity.CategoryTimeout)
	}
	a.logFailure(err)
	return attemptOutcome{kind: outcomeKindFailed, err: err, stack: a.stack}
}

// logFailure logs the failure of the attempt with its category.
func (a *attempt) logFailure(err error) {
	a.log(slog.LevelWarn, engine.EventAttemptFailed, "the attempt failed", slog.Any("error", err),
		slog.String("category", activity.CategoryOf(err)))
}

// locate adds the run and the node to an error of stored data.
func (a *attempt) locate(err error) error {
	return fmt.Errorf("run %s, node %s: %w", a.claimed.RunID, a.claimed.Node, err)
}

// undecodable marks an error as not retryable, with the category of decoding errors.
func undecodable(err error) error {
	return activity.NonRetryable(activity.Category(err, activity.CategoryDecode))
}

// report reports the end of the attempt, and requests up to slots executions of the same shard in exchange. If the
// engine refuses to complete or suspend the execution, the attempt fails instead.
func (a *attempt) report(ended attemptOutcome, slots int) report {
	reported := a.run.completer.report(&a.lease, ended, slots)
	a.reported(ended.kind, &reported)
	if reported.refused == nil {
		return reported
	}
	a.logFailure(reported.refused)
	failed := a.report(attemptOutcome{kind: outcomeKindFailed, err: reported.refused}, 0)
	failed.handoff.add(reported.handoff)
	return failed
}

// IsReported reports whether the end of the attempt has been reported to the engine.
func (a *attempt) IsReported() bool { return a.settled.Load() && !a.outcomeUnknown.Load() }
