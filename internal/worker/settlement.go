package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// settlement is an end of a task that the program asks for. err and report are valid when done is closed.
type settlement struct {
	outcome attemptOutcome
	done    chan struct{}
	report  report
	err     error
}

func (s *settlement) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// ask returns the settlement under way, or begins one with an outcome. It returns an error if the task or its context
// has ended, or another kind of settlement is under way or done. Only when the worker stops can a task be settled after
// its context has ended.
func (h *HeldTask) ask(o attemptOutcome) (*settlement, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.current; s != nil {
		if s.isDone() && s.err != nil {
			return nil, s.err
		}
		if s.outcome.kind != o.kind {
			return nil, fmt.Errorf("%w: %s", engine.ErrTaskSettled, s.outcome.kind)
		}
		return s, nil
	}
	if h.over != nil {
		h.returned()
		return nil, h.over
	}
	if cause := context.Cause(h.ctx); cause != nil && !errors.Is(cause, engine.ErrStopping) {
		h.returned()
		return nil, cause // serve ends the task
	}
	h.current = &settlement{outcome: o, done: make(chan struct{})}
	h.asked <- struct{}{} // one at a time, so there is room
	return h.current, nil
}

// settle carries out a settlement and waits for it. When ctx ends before, the settlement goes on: the same call waits
// for it again.
func (h *HeldTask) settle(ctx context.Context, o attemptOutcome) (report, error) {
	s, err := h.ask(o)
	if err != nil {
		return report{}, err
	}
	select {
	case <-s.done:
		return s.report, s.err
	default:
	}
	select {
	case <-s.done:
		return s.report, s.err
	case <-ctx.Done():
		return report{}, context.Cause(ctx)
	}
}

// carryOut carries out the settlement that was asked for. It reports whether the task has ended.
func (h *HeldTask) carryOut() bool {
	h.mu.Lock()
	s, t := h.current, h.task
	h.mu.Unlock()
	t.finishUp()
	cause := context.Cause(t.ctx)
	if !t.settle() || errors.Is(cause, engine.ErrLeaseLost) {
		// The engine, the heartbeat watch or the end of the worker came first.
		if errors.Is(cause, engine.ErrLeaseLost) {
			t.outcomeUnknown.Store(true)
			t.ended(engine.OutcomeLeaseLost)
		}
		if cause == nil {
			cause = engine.ErrStopping
		}
		h.finish(cause)
		return true
	}
	r := h.report(s.outcome)
	t.reported(s.outcome.kind, &r)
	if r.refused != nil {
		return h.reopen(s, r.refused)
	}
	if r.resumed { // the signals of activity.Await had arrived before; whoever claims it next sees them
		r = t.report(released("its wait is over"), 0)
	}
	if next := h.run.next(t, r.handoff); next != nil {
		next.report(released(reasonStopped), 0)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.report, s.err = r, h.settleError(r.err)
	h.over = s.err
	close(s.done)
	return true
}

// report reports an outcome, and repeats the call while the engine is unavailable and the lease lasts.
func (h *HeldTask) report(o attemptOutcome) report {
	c, l := h.task.run.completer, &h.task.lease
	if o.kind == outcomeKindReleased {
		return c.releaseUntilKnown(l, o.reason)
	}
	return c.report(l, o, 0)
}

// reopen leaves the task to the program after a settlement that the engine refused with err.
func (h *HeldTask) reopen(s *settlement, err error) (ended bool) {
	again, release := h.task.runAgain()
	if release {
		h.task.report(released(reasonStopped), 0)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = nil
	if !again {
		h.over = context.Cause(h.task.ctx)
	}
	s.err = err
	close(s.done)
	return !again
}

// settleError returns the error of a settlement that the engine has refused, that had no answer while the lease lasted,
// or that was not sent because the lease had ended. Another worker may have the execution then.
func (h *HeldTask) settleError(err error) error {
	late := enginerpc.IsUnanswered(err) || errors.Is(err, context.DeadlineExceeded)
	if err != nil && (isFence(err) || late && h.task.lease.leaseEnded()) {
		return fmt.Errorf("%w: %w", engine.ErrLeaseLost, err)
	}
	return err
}

// Complete commits a result; that of a condition is the JSON text of a case.
func (h *HeldTask) Complete(ctx context.Context, result []byte) error {
	if h.cases != nil {
		decision, err := h.cases.Decide(h.task.claimed.Node, result)
		if err != nil {
			return fmt.Errorf("%w: %w", engine.ErrInvalid, err)
		}
		result = decision
	}
	if err := h.task.checkResult(result); err != nil {
		return err
	}
	_, err := h.settle(ctx, attemptOutcome{kind: outcomeKindCompleted, result: result})
	return err
}

// Fail reports a failure, and whether another attempt follows. Marks of package activity in the failure have the effect
// that they have for functions.
func (h *HeldTask) Fail(ctx context.Context, failure error) (retries bool, err error) {
	o, marked := markedOutcome(failure)
	if !marked {
		o = attemptOutcome{kind: outcomeKindFailed, err: failure}
	}
	r, err := h.settle(ctx, o)
	if !marked {
		return err == nil && r.metric == engine.OutcomeRetried, err
	}
	return err == nil && o.kind != outcomeKindCancelled, err
}

// Cancel ends the execution as cancelled.
func (h *HeldTask) Cancel(ctx context.Context, reason string) error {
	_, err := h.settle(ctx, attemptOutcome{kind: outcomeKindCancelled, reason: reason})
	return err
}

// Delay gives the execution up until a time.
func (h *HeldTask) Delay(ctx context.Context, until time.Time) error {
	_, err := h.settle(ctx, attemptOutcome{kind: outcomeKindDelayed, until: until})
	return err
}

// Suspend gives the execution up until the signals of a wait arrive, and returns the token of its waitpoint.
func (h *HeldTask) Suspend(ctx context.Context, w activityspec.Wait) (activity.Token, error) {
	condition, err := submit.EncodeToldCondition(w)
	if err != nil {
		return activity.Token{}, err
	}
	if results, err := engine.Capability[engine.WaitResults](h.run.session.Backend); err == nil {
		if err := errors.Join(results.CheckText(w.WaitText), results.CheckWait(ctx, condition)); err != nil {
			return activity.Token{}, err
		}
	}
	r, err := h.settle(ctx, attemptOutcome{kind: outcomeKindAwaitsSignals, wait: newHeldWait(w, condition)})
	return r.token, err
}

// WaitForChildren gives the execution up until its dependencies are satisfied.
func (h *HeldTask) WaitForChildren(ctx context.Context) error {
	_, err := h.settle(ctx, attemptOutcome{kind: outcomeKindAwaitsChildren})
	return err
}

// Release gives the execution back.
func (h *HeldTask) Release(ctx context.Context, reason string) error {
	_, err := h.settle(ctx, released(reason))
	return err
}

// String names the settlement in errors.
func (k outcomeKind) String() string {
	switch k {
	case outcomeKindCompleted:
		return "it is completed"
	case outcomeKindFailed:
		return "it has failed"
	case outcomeKindReleased:
		return "it is released"
	case outcomeKindCancelled:
		return "it is cancelled"
	case outcomeKindDelayed:
		return "it is delayed"
	}
	return "it waits"
}
