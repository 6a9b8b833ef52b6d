package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/held"
	"github.com/flowfabric/flowfabric-go/internal/worker/journal"
	"github.com/flowfabric/flowfabric-go/internal/worker/task"
)

// maxHandoffTime bounds the time for which a slot runs executions of one shard in a row while other shards
// wait. Short executions gain from many in a row, since each that is not handed off costs a claim; after a
// long one, the other shards come first.
const maxHandoffTime = 20 * time.Millisecond

// tasksOf returns a task for each execution that was leased by a call sent at sentAt.
func (r *Run) tasksOf(at dispatch.LaneShard, leased []enginerpc.ClaimedExecution, sentAt time.Time) []*task.Task {
	if len(leased) == 0 {
		return nil
	}
	tasks := make([]*task.Task, len(leased))
	for i := range leased {
		tasks[i] = r.NewTask(at, &leased[i], sentAt)
	}
	return tasks
}

// launch starts the executions that a call sent at sentAt has leased for free slots. With keepFirst, it returns the
// first task for the caller to run.
func (r *Run) launch(
	at dispatch.LaneShard, leased []enginerpc.ClaimedExecution, sentAt time.Time, keepFirst bool,
) (first *task.Task) {
	tasks := r.tasksOf(at, leased, sentAt)
	r.acquire(tasks)
	if keepFirst && len(tasks) > 0 {
		first, tasks = tasks[0], tasks[1:]
	}
	r.start(tasks)
	return first
}

// start runs each task in a separate goroutine.
func (r *Run) start(tasks []*task.Task) {
	for _, t := range tasks {
		r.tasks.Add(1)
		select {
		case r.ready <- t:
		default:
			go r.workOn(t)
		}
	}
}

// maxReady bounds the goroutines of a run that wait for a task.
const maxReady = 64

// workOn runs a task, and then others as they start: the stack of a goroutine that has run a task need not grow again.
func (r *Run) workOn(t *task.Task) {
	for t != nil {
		r.workOnce(t)
		t = r.awaitTask()
	}
}

func (r *Run) workOnce(t *task.Task) {
	defer r.tasks.Done() // also if a function ends the goroutine
	r.work(t)
}

// awaitTask waits for the start of a task. It returns nil when enough goroutines wait already, or the run is over.
func (r *Run) awaitTask() *task.Task {
	defer r.waiting.Add(-1)
	if r.waiting.Add(1) > maxReady {
		return nil
	}
	select {
	case t := <-r.ready:
		return t
	case <-r.Base.Done():
		return nil
	}
}

// work uses one slot: it runs a task and those that come with the replies to its reports, then frees the
// slot.
func (r *Run) work(t *task.Task) {
	if r.worker.handover != nil {
		if !r.Hold(t, r.worker.handover.Offers) {
			r.queue.ReleaseSlot()
		}
		return
	}
	until := time.Now().Add(maxHandoffTime)
	var ended *task.Task
	wantNext := func() bool {
		return !r.worker.config.Through && (time.Now().Before(until) || !r.queue.HasWaiting(ended.Source)) &&
			!r.queue.IsClosed() && !r.queue.IsIsolating()
	}
	// A function can end its goroutine, so this is deferred. The slot is freed before the permits are
	// returned, so that this worker can lease an execution that gets one of them.
	defer func() {
		r.queue.ReleaseSlot()
		r.Permits.Release(&ended.Permit, ended.OutcomeUnknown.Load())
	}()
	for t != nil {
		r.worker.Counts.Executions.Add(1)
		ended = t
		if t = r.RunTask(t, wantNext); t != nil {
			r.Permits.Release(&ended.Permit, ended.OutcomeUnknown.Load())
		}
	}
}

// RunTask runs a task until its attempt has ended, reports the end, and returns the next task for the slot,
// or nil. wantNext is called when the function has returned and reports whether a next task is wanted.
func (r *Run) RunTask(t *task.Task, wantNext func() bool) *task.Task {
	defer t.Cancel(nil)
	r.describeContractNode(t)
	leased := r.leases.Add(&t.Attempt)
	if leased {
		defer r.leases.Remove(&t.Attempt)
	}
	if !r.mayBegin(t, leased) {
		return nil
	}
	ctx, span := t.StartSpan()
	defer func() {
		// A function has ended the goroutine. Only deferred calls still run.
		if t.Exited != nil {
			t.FinishUp()
			t.Report(t.OutcomeOf(nil, t.Exited), 0)
			observe.EndSpan(span, t.Exited)
		}
	}()
	for {
		ended, slots := t.RunAttempt(ctx), 0
		if wantNext() {
			slots = 1
		}
		reported := t.Report(ended, slots)
		if reported.Resumed && r.resume(t, ended, reported.Brought) {
			continue
		}
		observe.EndSpan(span, ended.SpanError())
		return r.Next(t, reported.Handoff)
	}
}

// Hold hands a task to a caller of Next by a channel, and performs the requests of the program until the task has
// ended. The goroutine that calls it counts as one of the run's tasks. It reports whether a program has taken the
// task.
func (r *Run) Hold(t *task.Task, to chan<- *held.Task) (taken bool) {
	r.worker.Counts.Executions.Add(1)
	defer func() { r.Permits.Release(&t.Permit, t.OutcomeUnknown.Load()) }()
	defer t.Cancel(nil)
	r.describeContractNode(t)
	leased := r.leases.Add(&t.Attempt)
	if leased {
		defer r.leases.Remove(&t.Attempt)
	}
	return r.mayBegin(t, leased) && r.worker.handover.Serve(r, t, to)
}

// Renew renews the lease of a task at once.
func (r *Run) Renew(ctx context.Context, t *task.Task) error {
	return r.leases.RenewIn(ctx, t.Shard.Partition, []*attempt.Attempt{&t.Attempt}, false)
}

// AddSlot adds a free slot, RemoveSlot takes one away again.
func (r *Run) AddSlot()    { r.queue.AddSlot() }
func (r *Run) RemoveSlot() { r.queue.RemoveSlot() }

// mayBegin reports whether the function of a task is to run. If not, mayBegin releases the execution unless
// the engine has ended it. leased reports whether the lease manager has the task.
func (r *Run) mayBegin(t *task.Task, leased bool) bool {
	placed := r.Permits.Await(&t.Permit)
	switch {
	case !leased:
		t.Report(completion.Released(completion.ReasonStopped), 0)
	case t.Settled.Load():
		t.Ended(observe.OutcomeEndedByEngine)
		t.Log(slog.LevelDebug, observe.EventAttemptEnded, "the engine ended the execution before its function began",
			slog.Any("cause", context.Cause(t.Ctx)))
	case !t.KeepsLease():
		t.Report(t.OutcomeOf(nil, engine.ErrLeaseLost), 0)
	case !placed || r.queue.IsClosed():
		if t.Settle() {
			t.Report(completion.Released(returnReason(placed)), 0)
		}
	case contractnode.IsUndescribed(t.Claimed):
		if t.Settle() {
			t.Report(completion.Released("the worker could not read its run"), 0)
		}
	default:
		r.starts.add(t.Shard.Lane)
		return true
	}
	return false
}

// describeContractNode completes the description of a node of a run that a program in contract mode has started, unless
// this engine is in contract mode itself. Nothing else knows the task yet. If it fails, the node stays undescribed.
func (r *Run) describeContractNode(t *task.Task) {
	if contractnode.IsUndescribed(t.Claimed) {
		_ = t.RetryUntilKnown(t.Ctx, func() error {
			return contractnode.NewReader(r.Session).Describe(t.Ctx, t.Shard.Partition, t.Claimed)
		})
	}
}

// resume reports whether the function of a task runs again, with the result of its wait. If its context has ended in
// the meantime, it does not; resume then releases the execution if the worker stops.
func (r *Run) resume(t *task.Task, ended completion.Outcome, brought []byte) bool {
	var unread error
	if ended.Suspension != nil {
		unread = t.Journal.Take(&t.Attempt, enginerpc.JournalEntry{
			Name: journal.AwaitEntry + ended.Suspension.Step, Value: brought,
		})
	}
	again, stopping := t.RunAgain()
	if again = again && unread == nil; stopping || unread != nil { // the next claim reports the value
		t.Report(completion.Released(completion.ReasonStopped), 0)
	}
	return again
}

// Next returns the task that follows in the slot of a finished one, and performs the further actions that the reply to
// its report requires: draining, returning surplus executions and admitting spare candidates.
func (r *Run) Next(over *task.Task, h completion.Handoff) *task.Task {
	at := over.Source
	if h.More {
		r.drain.start(r.Base, over.Shard.Partition)
	}
	if h.Remaining {
		r.queue.Add(at)
	}
	for _, t := range r.tasksOf(at, h.Surplus, h.SentAt) {
		r.Background.Start(func() { t.Report(completion.Released(completion.ReasonStopped), 0) })
	}
	if len(h.Spare) > 0 {
		r.Background.Start(func() { r.admit(at.Lane, h.Spare, 0) })
	}
	switch {
	case h.Next != nil:
		return r.NewTask(at, h.Next, h.SentAt)
	case len(h.Candidates) > 0:
		return r.admitNext(over, h.Candidates)
	}
	return nil
}

// returnReason returns the reason for releasing a task that has not run.
func returnReason(permitted bool) string {
	if !permitted {
		return completion.ReasonNoRoom
	}
	return completion.ReasonStopped
}
