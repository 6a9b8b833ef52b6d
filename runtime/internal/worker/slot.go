package worker

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// maxHandoffTime bounds for how long a slot may run executions of one lane and partition in a row while others wait. Short ones are worth
// more than a few in a row, since each that is not handed on costs a claim; after a long one, the others come first.
const maxHandoffTime = 20 * time.Millisecond

// tasksOf makes tasks of executions that were leased by a call sent at a time.
func (s *WorkerRun) tasksOf(at dispatch.LaneShard, leased []enginerpc.ClaimedExecution, sentAt time.Time) []*Task {
	tasks := make([]*Task, len(leased))
	for i, claimed := range leased {
		tasks[i] = NewTask(s, at, claimed, sentAt)
	}
	return tasks
}

// work occupies a slot: it runs a task and those that come with the replies to its reports, then frees the slot.
func (s *WorkerRun) work(t *Task) {
	until := time.Now().Add(maxHandoffTime)
	wantNext := func() bool {
		return !s.Worker.Config.Through && (time.Now().Before(until) || !s.queue.HasWaiting()) && !s.queue.IsClosed()
	}
	var ended *Task
	// A function may end its goroutine, so this is deferred. The slot is free before others learn of the places, so that this
	// worker can take one.
	defer func() {
		s.queue.ReleaseSlot()
		s.releasePermits(ended)
	}()
	for t != nil {
		s.Worker.Counts.Executions.Add(1)
		ended = t
		if t = s.RunTask(t, wantNext); t != nil {
			s.releasePermits(ended)
		}
	}
}

// runTask runs a task until its attempt is over, reports that, and returns the next task for the slot, if there is one. wantNext
// tells then whether it is wanted.
func (s *WorkerRun) RunTask(t *Task, wantNext func() bool) *Task {
	defer t.Cancel(nil)
	held := s.Leases.add(t)
	if held {
		defer s.Leases.remove(t)
	}
	if !s.mayBegin(t, held) {
		return nil
	}
	ctx, span := t.startSpan()
	defer func() {
		// Nothing can bring a goroutine back that a function has ended, but what is deferred still runs.
		if t.exited != nil {
			t.finishUp()
			s.report(t, t.outcomeOf(nil, t.exited), 0)
			engine.EndSpan(span, t.exited)
		}
	}()
	for {
		ended, slots := t.attempt(ctx), 0
		if wantNext() {
			slots = 1
		}
		reported := s.report(t, ended, slots)
		if reported.resumed && s.resume(t, ended, reported.brought) {
			continue
		}
		engine.EndSpan(span, ended.spanError())
		return s.next(t, reported.handoff)
	}
}

// mayBegin reports whether the function of a task is to run. Otherwise the execution is released, unless the engine has ended it.
func (s *WorkerRun) mayBegin(t *Task, held bool) bool {
	placed := t.awaitPermits()
	switch {
	case !held:
		s.report(t, released(reasonStopped), 0)
	case t.Settled.Load():
		t.ended(engine.OutcomeEndedByEngine)
		t.log(slog.LevelDebug, engine.EventAttemptEnded, "execution ended before its function began", slog.Any("cause", context.Cause(t.ctx)))
	case !placed || s.queue.IsClosed():
		if t.settle() {
			s.report(t, released(returnReason(placed)), 0)
		}
	default:
		return true
	}
	return false
}

func (t *Task) startSpan() (context.Context, trace.Span) {
	return t.run.Session.Telemetry.Tracer.Start(t.ctx, "flowfabric.activity "+t.claimed.Kind,
		t.run.Session.Telemetry.Consumer, trace.WithAttributes(
			attribute.String("flowfabric.flow", t.claimed.FlowName), attribute.String("flowfabric.run", t.claimed.RunID),
			attribute.String("flowfabric.node", t.claimed.Node), attribute.Int("flowfabric.attempt", int(t.claimed.AttemptIndex)+1)))
}

// report reports the end of an attempt. What cannot wait for signals as it asks fails instead.
func (s *WorkerRun) report(t *Task, ended attemptOutcome, slots int) report {
	reported := s.Completer.report(&t.lease, ended, slots)
	t.reported(ended.kind, &reported)
	if reported.refused == nil {
		return reported
	}
	t.logFailure(reported.refused)
	return s.report(t, attemptOutcome{kind: outcomeKindFailed, err: reported.refused}, 0)
}

// resume reports whether the function of a task is to run again, with what its wait has brought, unless the attempt is to end anyway.
func (s *WorkerRun) resume(t *Task, ended attemptOutcome, brought []byte) bool {
	if ended.suspension != nil {
		t.journal.put(awaitEntry+ended.suspension.Step, brought)
	}
	again, stopping := t.runAgain()
	if stopping {
		s.report(t, released(reasonStopped), 0)
	}
	return again
}

// next returns the task that follows in the slot of one that is over, and sees to whatever else came with the reply to its report.
func (s *WorkerRun) next(over *Task, h handoff) *Task {
	at := over.shard
	if h.more {
		s.drain.start(s.Base, at.Partition)
	}
	if h.remaining {
		s.queue.Add(at)
	}
	for _, t := range s.tasksOf(at, h.surplus, h.sentAt) {
		s.background.start(func() { s.report(t, released(reasonStopped), 0) })
	}
	if len(h.spare) > 0 {
		s.background.start(func() { s.Admit(at.Lane, h.spare, 0) })
	}
	switch {
	case h.next != nil:
		return NewTask(s, at, *h.next, h.sentAt)
	case len(h.candidates) > 0:
		return s.admitNext(over, h.candidates)
	}
	return nil
}
