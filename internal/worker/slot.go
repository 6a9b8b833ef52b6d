package worker

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowfabric/flowfabric-go/internal/contractmode"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// maxHandoffTime bounds the time for which a slot runs executions of one shard in a row while other shards
// wait. Short executions gain from many in a row, since each that is not handed off costs a claim; after a
// long one, the other shards come first.
const maxHandoffTime = 20 * time.Millisecond

// tasksOf returns a task for each execution that was leased by a call sent at sentAt.
func (s *Run) tasksOf(at dispatch.LaneShard, leased []enginerpc.ClaimedExecution, sentAt time.Time) []*Task {
	tasks := make([]*Task, len(leased))
	for i := range leased {
		tasks[i] = s.NewTask(at, &leased[i], sentAt)
	}
	return tasks
}

// launch starts the executions that a call sent at sentAt has leased for free slots. With keepFirst, it returns the
// first task for the caller to run.
func (s *Run) launch(
	at dispatch.LaneShard, leased []enginerpc.ClaimedExecution, sentAt time.Time, keepFirst bool,
) (first *Task) {
	tasks := s.tasksOf(at, leased, sentAt)
	s.permits.acquire(tasks...)
	if keepFirst && len(tasks) > 0 {
		first, tasks = tasks[0], tasks[1:]
	}
	s.start(tasks)
	return first
}

// start runs each task in a goroutine of its own.
func (s *Run) start(tasks []*Task) {
	for _, t := range tasks {
		s.tasks.Go(func() { s.work(t) })
	}
}

// work uses one slot: it runs a task and those that come with the replies to its reports, then frees the
// slot.
func (s *Run) work(t *Task) {
	if s.worker.handover != nil {
		if !s.hold(t, s.worker.handover.offers) {
			s.queue.ReleaseSlot()
		}
		return
	}
	until := time.Now().Add(maxHandoffTime)
	wantNext := func() bool {
		return !s.worker.config.Through && (time.Now().Before(until) || !s.queue.HasWaiting()) && !s.queue.IsClosed() &&
			!s.queue.IsIsolating()
	}
	var ended *Task
	// A function can end its goroutine, so this is deferred. The slot is freed before the permits are
	// returned, so that this worker can lease an execution that gets one of them.
	defer func() {
		s.queue.ReleaseSlot()
		s.returns.release(ended)
	}()
	for t != nil {
		s.worker.Counts.Executions.Add(1)
		ended = t
		if t = s.RunTask(t, wantNext); t != nil {
			s.returns.release(ended)
		}
	}
}

// RunTask runs a task until its attempt has ended, reports the end, and returns the next task for the slot,
// or nil. wantNext is called when the function has returned and reports whether a next task is wanted.
func (s *Run) RunTask(t *Task, wantNext func() bool) *Task {
	defer t.cancel(nil)
	s.describeContractNode(t)
	held := s.leases.add(t)
	if held {
		defer s.leases.remove(t)
	}
	if !s.mayBegin(t, held) {
		return nil
	}
	ctx, span := t.startSpan()
	defer func() {
		// A function has ended the goroutine. Only deferred calls still run.
		if t.exited != nil {
			t.finishUp()
			t.report(t.outcomeOf(nil, t.exited), 0)
			engine.EndSpan(span, t.exited)
		}
	}()
	for {
		ended, slots := t.runAttempt(ctx), 0
		if wantNext() {
			slots = 1
		}
		reported := t.report(ended, slots)
		if reported.resumed && s.resume(t, ended, reported.brought) {
			continue
		}
		engine.EndSpan(span, ended.spanError())
		return s.next(t, reported.handoff)
	}
}

// mayBegin reports whether the function of a task is to run. If not, mayBegin releases the execution unless
// the engine has ended it. held reports whether the lease manager has the task.
func (s *Run) mayBegin(t *Task, held bool) bool {
	placed := s.permits.await(t)
	switch {
	case !held:
		t.report(released(reasonStopped), 0)
	case t.settled.Load():
		t.ended(engine.OutcomeEndedByEngine)
		t.log(slog.LevelDebug, engine.EventAttemptEnded, "the engine ended the execution before its function began",
			slog.Any("cause", context.Cause(t.ctx)))
	case !t.keepsLease():
		t.report(t.outcomeOf(nil, engine.ErrLeaseLost), 0)
	case !placed || s.queue.IsClosed():
		if t.settle() {
			t.report(released(returnReason(placed)), 0)
		}
	case contractmode.IsUndescribed(t.claimed):
		if t.settle() {
			t.report(released("the worker could not read its run"), 0)
		}
	default:
		s.starts.add(t.shard.Lane)
		return true
	}
	return false
}

// describeContractNode completes the description of a node of a run that a program in contract mode has started, unless
// this engine is in contract mode itself. Nothing else knows the task yet. If it fails, the node stays undescribed.
func (s *Run) describeContractNode(t *Task) {
	if contractmode.IsUndescribed(t.claimed) {
		_ = t.retryUntilKnown(t.ctx, func() error {
			return contractmode.DescribeNode(t.ctx, s.session, t.shard.Partition, t.claimed)
		})
	}
}

// startSpan starts the span of the attempt.
func (t *Task) startSpan() (context.Context, trace.Span) {
	return t.run.session.Telemetry.Tracer.Start(t.ctx, t.run.spanName(t.claimed.Kind),
		t.run.session.Telemetry.Consumer, trace.WithAttributes(
			attribute.String("flowfabric.flow", t.claimed.FlowName),
			attribute.String("flowfabric.run", t.claimed.RunID),
			attribute.String("flowfabric.node", t.claimed.Node),
			attribute.Int("flowfabric.attempt", int(t.claimed.AttemptIndex)+1)))
}

// resume reports whether the function of a task runs again, with the result of its wait. If its context has
// ended meanwhile, it does not; resume then releases the execution if the worker stops.
func (s *Run) resume(t *Task, ended attemptOutcome, brought []byte) bool {
	if ended.suspension != nil {
		t.journal.put(awaitEntry+ended.suspension.Step, brought)
	}
	again, stopping := t.runAgain()
	if stopping {
		t.report(released(reasonStopped), 0)
	}
	return again
}

// next returns the task that follows in the slot of a finished one, and starts what else the reply to its
// report requires: draining, returning surplus executions and admitting spare candidates.
func (s *Run) next(over *Task, h handoff) *Task {
	at := over.source
	if h.more {
		s.drain.start(s.base, over.shard.Partition)
	}
	if h.remaining {
		s.queue.Add(at)
	}
	for _, t := range s.tasksOf(at, h.surplus, h.sentAt) {
		s.background.start(func() { t.report(released(reasonStopped), 0) })
	}
	if len(h.spare) > 0 {
		s.background.start(func() { s.admit(at.Lane, h.spare, 0) })
	}
	switch {
	case h.next != nil:
		return s.NewTask(at, h.next, h.sentAt)
	case len(h.candidates) > 0:
		return s.admitNext(over, h.candidates)
	}
	return nil
}
