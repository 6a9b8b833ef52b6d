package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// HeldTask is a task that the program settles by its methods, in place of a function of an activity. Run.hold makes one
// and carries out what the methods ask for; they are safe for concurrent use.
type HeldTask struct {
	task  *Task
	run   *Run
	input []byte
	// cases are those of a condition; nil for other tasks.
	cases *submit.StoredCases
	// ctx ends with the lease or at the time limits of the attempt. It carries view, so that the functions of package
	// activity work with it.
	ctx  context.Context
	view *execution
	// begun is closed when a caller of Next that has taken the task may have it, or when it has been released instead,
	// since a limit had no room; refused is set then.
	begun   chan struct{}
	refused bool
	// asked has a value when current is to be carried out.
	asked chan struct{}
	// owesReturn is set while the engine may wait until the program works no more on the task, which has ended; left
	// once the program has said that.
	owesReturn, left atomic.Bool

	mu sync.Mutex
	// current is the settlement that was asked for last; nil before, and after the engine refused one. mu guards it and
	// over, which is set when the task has ended otherwise.
	current *settlement
	over    error
}

// offer hands the task to a program by a channel. It reports whether one came for it, and else why none did.
func (h *HeldTask) offer(to chan<- *HeldTask, closing <-chan struct{}) (taken bool, reason string) {
	select {
	case to <- h: // somebody waits
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
		return false, reasonStopped
	case <-h.ctx.Done():
		return false, reasonStopped
	}
}

// await waits until a task that was taken may be handed out. It reports whether it may; the error is the cause of ctx.
func (h *HeldTask) await(ctx context.Context) (bool, error) {
	select {
	case <-h.begun:
		return !h.refused, nil
	case <-ctx.Done():
		h.returned()
		h.ask(released("no program came for the task"))
		return false, context.Cause(ctx)
	}
}

// hold prepares a task, hands it to a caller of Next by a channel, and carries out what the program asks for until the
// task has ended. The goroutine that calls it is one of the tasks of the run.
func (s *Run) hold(t *Task, to chan<- *HeldTask) (taken bool) {
	s.worker.Counts.Executions.Add(1)
	defer s.returns.release(t)
	defer t.cancel(nil)
	s.describeContractNode(t)
	held := s.leases.add(t)
	if held {
		defer s.leases.remove(t)
	}
	if !s.mayBegin(t, held) {
		return false
	}
	ctx, span := t.startSpan()
	h, end, err := s.prepare(ctx, t)
	if err != nil {
		t.report(t.outcomeOf(nil, err), 0)
		engine.EndSpan(span, err)
		return false
	}
	defer end()
	taken, reason := h.offer(to, s.worker.handover.closing)
	if !taken {
		if t.settle() {
			t.report(released(reason), 0)
		}
		engine.EndSpan(span, nil)
		return false
	}
	defer s.worker.handover.leave()
	if !s.permits.begin(t) {
		h.refused = true
		close(h.begun)
		if t.settle() {
			t.report(released(reasonNoRoom), 0)
		}
		engine.EndSpan(span, nil)
		return true
	}
	close(h.begun)
	h.serve()
	engine.EndSpan(span, nil)
	return true
}

// prepare composes the input of a task and sets its time limits.
func (s *Run) prepare(ctx context.Context, t *Task) (h *HeldTask, end func(), err error) {
	plan, err := s.plans.Decode(t.claimed.Policy)
	if err != nil {
		return nil, nil, undecodable(t.locate(err))
	}
	input, err := t.input(ctx, plan)
	if err != nil {
		return nil, nil, err
	}
	if err := t.journal.read(ctx, &t.attempt); err != nil {
		return nil, nil, err
	}
	h = &HeldTask{
		task: t, run: s, input: input, cases: plan.Cases, begun: make(chan struct{}), asked: make(chan struct{}, 1),
	}
	limits := t.limits(plan)
	ctx, cancel := limits.context(ctx)
	h.view = &execution{
		stepRecorder: stepRecorder{attempt: &t.attempt, journal: &t.journal}, task: t, until: limits.until,
	}
	h.ctx = activitycontext.With(ctx, h.view)
	stop := func() {}
	if plan.Heartbeat > 0 {
		stop = t.watchHeartbeat(plan.Heartbeat)
	}
	return h, func() { stop(); cancel() }, nil
}

// serve carries out settlements until the task has ended.
func (h *HeldTask) serve() {
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
				timer := time.NewTimer(stopPatience / 2)
				defer timer.Stop()
				stopping = timer.C
				continue
			}
			if h.contextEnded(cause) {
				return
			}
		case <-stopping:
			h.end(engine.ErrStopping, released(reasonStopped))
			return
		}
	}
}

// contextEnded ends a task whose context has ended, unless the program has asked for a settlement before. It reports
// whether the task has ended.
func (h *HeldTask) contextEnded(cause error) bool {
	h.mu.Lock()
	asked := h.current != nil
	h.mu.Unlock()
	if asked && !errors.Is(cause, engine.ErrLeaseLost) {
		return false // it is carried out first
	}
	h.end(cause, attemptOutcome{})
	return true
}

// end ends a task that the program has not settled. Unless something else has settled it, it reports an outcome, or,
// without one, what follows from the cause.
func (h *HeldTask) end(cause error, o attemptOutcome) {
	t := h.task
	t.finishUp()
	if o.kind == outcomeKindDropped {
		o = t.outcomeOf(nil, cause) // settles the attempt
		t.report(o, 0)
		// The program may still work: it says that it does not when it settles or drops the task.
		h.owesReturn.Store(t.awaited.Swap(false))
		if h.left.Load() {
			h.returned()
		}
	} else if t.settle() {
		t.report(o, 0)
	}
	h.finish(cause)
}

// finish records how the task has ended and answers a settlement that was asked for too late.
func (h *HeldTask) finish(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = cause
	if s := h.current; s != nil && !s.isDone() {
		s.err = cause
		close(s.done)
	}
}

// returned tells the engine that the program works no more on a task that the engine has ended, if it waits for that.
func (h *HeldTask) returned() {
	h.left.Store(true)
	if h.owesReturn.Swap(false) {
		h.run.background.start(h.task.tellReturned)
	}
}

// Info describes the attempt.
func (h *HeldTask) Info() activitycontext.Info { return h.view.Info() }

// Context returns the context of the task.
func (h *HeldTask) Context() context.Context { return h.ctx }

// Input returns the payload of the execution, for a node the input composed from its upstreams.
func (h *HeldTask) Input() []byte { return h.input }

// LeaseEnd returns when this worker treats the lease as lost, unless it is renewed.
func (h *HeldTask) LeaseEnd() time.Time { return h.task.leaseEnd() }

// Drop releases a task that the program has lost hold of.
func (h *HeldTask) Drop() {
	h.mu.Lock()
	settled := h.current != nil || h.over != nil
	h.mu.Unlock()
	h.returned()
	if !settled {
		h.task.log(slog.LevelWarn, engine.EventAttemptEnded,
			"the program dropped a task without settling it; it is released")
		h.ask(released("the program dropped the task"))
	}
}
