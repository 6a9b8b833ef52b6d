package held

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/journal"
	"github.com/flowfabric/flowfabric-go/internal/worker/task"
)

// settleTime is the time for the program to settle its tasks when the worker stops: half of the time after which the
// executions of functions that do not return are released.
const settleTime = time.Second

// Task is a task that the program settles by its methods, in place of a function of an activity. Handover.Serve makes
// one and performs the requests of the methods, which are safe for concurrent use.
type Task struct {
	task  *task.Task
	run   Run
	input []byte
	// cases are the cases of a condition; nil for other tasks.
	cases *submit.StoredCases
	// ctx ends with the lease or at the time limits of the attempt. It carries view, so that the functions of package
	// activity work with it.
	ctx  context.Context
	view *task.Execution
	// begun is closed when a caller of Next that has taken the task may have it, or when it has been released instead,
	// since a limit had no room; refused is set then.
	begun   chan struct{}
	refused bool
	// asked receives a value when current has to be performed.
	asked chan struct{}
	// owesReturn is set while the engine may wait until the program no longer works on the task, which has ended; left
	// is set when the program has reported that.
	owesReturn, left atomic.Bool

	mu sync.Mutex
	// current is the last settlement that the program requested; nil before, and after the engine refused one. mu
	// guards it and over, which is set when the task has ended otherwise.
	current *settlement
	over    error
}

// Run is the worker run whose tasks the program holds.
type Run interface {
	// Go runs a function in a goroutine that the run waits for like for its tasks.
	Go(func())
	// AddSlot adds a free slot, RemoveSlot takes one away again.
	AddSlot()
	RemoveSlot()
	// LeaseGranted leases the execution of a grant and returns its task.
	LeaseGranted(ctx context.Context, grant enginecore.Grant) (*task.Task, error)
	// Hold holds the lease of a task while the program has it, which takes it from a channel. It reports whether the
	// program has taken it.
	Hold(t *task.Task, to chan<- *Task) (taken bool)
	// Renew renews the lease of a task at once.
	Renew(ctx context.Context, t *task.Task) error
	// Next performs the further actions that the reply to the report of an ended task requires, and returns the task
	// that follows; nil if none does.
	Next(ended *task.Task, h completion.Handoff) *task.Task
}

// offer hands the task to a program by a channel. It reports whether a caller took it, and otherwise the reason.
func (h *Task) offer(to chan<- *Task, closing <-chan struct{}) (taken bool, reason string) {
	select {
	case to <- h: // a caller waits
		return true, ""
	default:
	}
	patience := time.NewTimer(handoverPatience)
	defer patience.Stop()
	select {
	case to <- h:
		return true, ""
	case <-patience.C:
		return false, "no program came for the task"
	case <-closing:
		return false, completion.ReasonStopped
	case <-h.ctx.Done():
		return false, completion.ReasonStopped
	}
}

// await waits until a task that was taken may be handed out. It reports whether it may; the error is the cause of ctx.
// Every task passes here: a task whose context or lease has ended since it was leased is not handed out, because
// another worker may run it by now. The process may have been stopped in between.
func (h *Task) await(ctx context.Context) (bool, error) {
	select {
	case <-h.begun:
	case <-ctx.Done():
		h.returned()
		h.ask(completion.Released("no program came for the task"))
		return false, context.Cause(ctx)
	}
	if h.refused {
		return false, nil
	}
	if !h.task.KeepsLease() || h.ctx.Err() != nil {
		h.returned()
		h.ask(completion.Released(completion.ReasonStopped)) // unless something else has ended it
		return false, nil
	}
	return true, nil
}

// Serve hands a task to a caller of Next by a channel, and performs the requests of the program until the task has
// ended. It reports whether a program has taken the task.
func (h *Handover) Serve(run Run, t *task.Task, to chan<- *Task) (taken bool) {
	ctx, span := t.StartSpan()
	held, end, err := prepare(ctx, run, t)
	if err != nil {
		t.Report(t.OutcomeOf(nil, err), 0)
		observe.EndSpan(span, err)
		return false
	}
	defer end()
	taken, reason := held.offer(to, h.closing)
	if !taken {
		if t.Settle() {
			t.Report(completion.Released(reason), 0)
		}
		observe.EndSpan(span, nil)
		return false
	}
	defer h.leave()
	if !t.Services.Permits.Begin(&t.Permit) {
		held.refused = true
		close(held.begun)
		if t.Settle() {
			t.Report(completion.Released(completion.ReasonNoRoom), 0)
		}
		observe.EndSpan(span, nil)
		return true
	}
	close(held.begun)
	held.serve()
	observe.EndSpan(span, nil)
	return true
}

// prepare composes the input of a task and sets its time limits.
func prepare(ctx context.Context, run Run, t *task.Task) (h *Task, end func(), err error) {
	plan, err := t.Services.Plans.Decode(t.Claimed.Policy)
	if err != nil {
		return nil, nil, completion.Undecodable(err)
	}
	input, err := t.Input(ctx, plan)
	if err != nil {
		return nil, nil, err
	}
	if err := t.Journal.Read(ctx, &t.Attempt); err != nil {
		return nil, nil, err
	}
	h = &Task{
		task: t, run: run, input: input, cases: plan.Cases, begun: make(chan struct{}), asked: make(chan struct{}, 1),
	}
	limits := t.Limits(plan)
	ctx, cancel := limits.Context(ctx)
	h.view = &task.Execution{
		Recorder: journal.Recorder{Attempt: &t.Attempt, Journal: &t.Journal}, Task: t, Until: limits.Until,
	}
	h.ctx = h.view.Context(ctx)
	stop := func() {}
	if plan.Heartbeat > 0 {
		stop = t.WatchHeartbeat(plan.Heartbeat)
	}
	return h, func() { stop(); cancel() }, nil
}

// serve performs settlements until the task has ended.
func (h *Task) serve() {
	ended := h.ctx.Done()
	var stopping <-chan time.Time
	for {
		select {
		case <-h.asked:
			if h.carryOut() {
				return
			}
			ended = h.ctx.Done()
		case <-ended:
			ended = nil
			cause := context.Cause(h.ctx)
			if errors.Is(cause, engine.ErrStopping) {
				// The program has a moment to settle the task.
				timer := time.NewTimer(settleTime)
				defer timer.Stop()
				stopping = timer.C
				continue
			}
			if h.contextEnded(cause) {
				return
			}
		case <-stopping:
			h.end(engine.ErrStopping, completion.Released(completion.ReasonStopped))
			return
		}
	}
}

// contextEnded ends a task whose context has ended, unless the program has requested a settlement before. It reports
// whether the task has ended.
func (h *Task) contextEnded(cause error) bool {
	h.mu.Lock()
	asked := h.current != nil
	h.mu.Unlock()
	if asked && !errors.Is(cause, engine.ErrLeaseLost) {
		return false // the settlement is performed first
	}
	h.end(cause, completion.Outcome{})
	return true
}

// end ends a task that the program has not settled. If nothing else has settled it, it reports the outcome o, or,
// without one, the outcome that follows from the cause.
func (h *Task) end(cause error, o completion.Outcome) {
	t := h.task
	t.FinishUp()
	if o.Kind == completion.KindDropped {
		o = t.OutcomeOf(nil, cause) // settles the attempt
		t.Report(o, 0)
		// The program may still work: it reports that it has stopped when it settles or drops the task.
		h.owesReturn.Store(t.Awaited.Swap(false))
		if h.left.Load() {
			h.returned()
		}
	} else if t.Settle() {
		t.Report(o, 0)
	}
	h.finish(cause)
}

// finish records how the task has ended and answers a settlement that was requested too late.
func (h *Task) finish(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = cause
	if s := h.current; s != nil && !s.isDone() {
		s.err = cause
		close(s.done)
	}
}

// returned records that the program no longer works on a task that the engine has ended, and reports that to the
// engine if it waits for it.
func (h *Task) returned() {
	h.left.Store(true)
	if h.owesReturn.Swap(false) {
		h.task.Run.Background.Start(h.task.ReportReturned)
	}
}

// Info describes the attempt.
func (h *Task) Info() activitycontext.Info { return h.view.Info() }

// Context returns the context of the task.
func (h *Task) Context() context.Context { return h.ctx }

// Input returns the payload of the execution, for a node the input composed from its upstreams.
func (h *Task) Input() []byte { return h.input }

// LeaseEnd returns when this worker treats the lease as lost, unless it is renewed.
func (h *Task) LeaseEnd() time.Time { return h.task.LeaseEnd() }

// Drop releases a task that the program has lost hold of.
func (h *Task) Drop() {
	h.mu.Lock()
	settled := h.current != nil || h.over != nil
	h.mu.Unlock()
	h.returned()
	if !settled {
		h.task.Log(slog.LevelWarn, observe.EventAttemptEnded,
			"the program dropped a task without settling it; it is released")
		h.ask(completion.Released("the program dropped the task"))
	}
}

// Log stores a line with the attempt, like the lines of activity.Logger, but does not pass it to the logger of the
// program.
func (h *Task) Log(ctx context.Context, line slog.Record) error {
	if err := h.active(ctx); err != nil {
		return err
	}
	store := h.task.Output.LineStore()
	if store == nil || !store.Enabled(ctx, line.Level) {
		return nil
	}
	return store.Handle(ctx, line)
}

// RecordedStep returns the recorded result of a step, and whether there is one.
func (h *Task) RecordedStep(step string) ([]byte, bool) { return h.view.Recorded(step) }

// RecordStep records the result of a step unless there is one already, and returns the recorded one.
func (h *Task) RecordStep(ctx context.Context, step string, result []byte) ([]byte, error) {
	if err := h.active(ctx); err != nil {
		return nil, err
	}
	if recorded, done := h.view.Recorded(step); done {
		return recorded, nil
	}
	return h.view.Record(ctx, step, result)
}
