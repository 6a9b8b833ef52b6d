package held

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// settlement is an end of a task that the program requests. err and report are valid when done is closed.
type settlement struct {
	outcome completion.Outcome
	done    chan struct{}
	report  completion.Report
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
func (h *Task) ask(o completion.Outcome) (*settlement, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.current; s != nil {
		if s.isDone() && s.err != nil {
			return nil, s.err
		}
		if s.outcome.Kind != o.Kind {
			return nil, fmt.Errorf("%w: %s", engine.ErrTaskSettled, s.outcome.Kind)
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

// settle performs a settlement and waits for it. When ctx ends first, the settlement continues: the same call waits
// for it again.
func (h *Task) settle(ctx context.Context, o completion.Outcome) (completion.Report, error) {
	s, err := h.ask(o)
	if err != nil {
		return completion.Report{}, err
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
		return completion.Report{}, context.Cause(ctx)
	}
}

// carryOut performs the requested settlement. It reports whether the task has ended.
func (h *Task) carryOut() bool {
	h.mu.Lock()
	s, t := h.current, h.task
	h.mu.Unlock()
	t.FinishUp()
	cause := context.Cause(t.Ctx)
	if !t.Settle() || errors.Is(cause, engine.ErrLeaseLost) {
		// The engine, the heartbeat watch or the end of the worker came first.
		if errors.Is(cause, engine.ErrLeaseLost) {
			t.OutcomeUnknown.Store(true)
			t.Ended(observe.OutcomeLeaseLost)
		}
		if cause == nil {
			cause = engine.ErrStopping
		}
		h.finish(cause)
		return true
	}
	r := h.report(s.outcome)
	t.Reported(s.outcome.Kind, &r)
	if r.Refused != nil {
		return h.reopen(s, r.Refused)
	}
	if r.Resumed { // the signals of activity.Await had arrived before; the next worker that claims it reads them
		r = t.Report(completion.Released("its wait is over"), 0)
	}
	if next := h.run.Next(t, r.Handoff); next != nil {
		next.Report(completion.Released(completion.ReasonStopped), 0)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.report, s.err = r, h.settleError(r.Err)
	h.over = s.err
	close(s.done)
	return true
}

// report reports an outcome, and repeats the call while the engine is unavailable and the lease lasts.
func (h *Task) report(o completion.Outcome) completion.Report {
	c, l := h.task.Run.Completer, &h.task.Lease
	if o.Kind == completion.KindReleased {
		return c.ReleaseUntilKnown(l, o.Reason)
	}
	return c.Report(l, o, 0)
}

// reopen leaves the task to the program after a settlement that the engine refused with err.
func (h *Task) reopen(s *settlement, err error) (ended bool) {
	again, release := h.task.RunAgain()
	if release {
		h.task.Report(completion.Released(completion.ReasonStopped), 0)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = nil
	if !again {
		h.over = context.Cause(h.task.Ctx)
	}
	s.err = err
	close(s.done)
	return !again
}

// settleError returns the error of a settlement that the engine has refused, that had no answer while the lease lasted,
// or that was not sent because the lease had ended. Another worker may have the execution then.
func (h *Task) settleError(err error) error {
	late := enginerpc.IsUnanswered(err) || errors.Is(err, context.DeadlineExceeded)
	if err != nil && (lease.IsFence(err) || late && h.task.Lease.LeaseEnded()) {
		return fmt.Errorf("%w: %w", engine.ErrLeaseLost, err)
	}
	return err
}

// Complete commits a result; the result of a condition is the JSON text of a case.
func (h *Task) Complete(ctx context.Context, result []byte) error {
	if h.cases != nil {
		decision, err := h.cases.Decide(h.task.Claimed.Node, result)
		if err != nil {
			return fmt.Errorf("%w: %w", engine.ErrInvalid, err)
		}
		result = h.task.Run.Core.Exempt(decision)
	}
	if err := h.task.CheckResult(result); err != nil {
		return err
	}
	// The waits for the run may keep the result, and the program may use its bytes again.
	_, err := h.settle(ctx, completion.Outcome{Kind: completion.KindCompleted, Result: bytes.Clone(result)})
	return err
}

// Fail reports a failure, and whether another attempt follows. Marks of package activity in the failure have the effect
// that they have for functions.
func (h *Task) Fail(ctx context.Context, failure error) (retries bool, err error) {
	o, marked := completion.Marked(failure)
	if !marked {
		o = completion.Outcome{Kind: completion.KindFailed, Err: failure}
	}
	r, err := h.settle(ctx, o)
	if !marked {
		return err == nil && r.Metric == observe.OutcomeRetried, err
	}
	return err == nil && o.Kind != completion.KindCancelled, err
}

// Cancel ends the execution as cancelled.
func (h *Task) Cancel(ctx context.Context, reason string) error {
	_, err := h.settle(ctx, completion.Outcome{Kind: completion.KindCancelled, Reason: reason})
	return err
}

// Delay gives the execution up until a time.
func (h *Task) Delay(ctx context.Context, until time.Time) error {
	_, err := h.settle(ctx, completion.Outcome{Kind: completion.KindDelayed, Until: until})
	return err
}

// Suspend gives the execution up until the signals of a wait arrive, and returns the token of its waitpoint.
func (h *Task) Suspend(ctx context.Context, w activityspec.Wait) (activity.Token, error) {
	condition, err := submit.EncodeConditionWithTexts(w)
	if err != nil {
		return activity.Token{}, err
	}
	if results, stepwise := h.task.Run.Session.Stepwise(); stepwise {
		if err := errors.Join(results.CheckText(w.WaitText), results.CheckWait(ctx, condition)); err != nil {
			return activity.Token{}, err
		}
	}
	wait := completion.NewHeldWait(w, condition)
	r, err := h.settle(ctx, completion.Outcome{Kind: completion.KindAwaitsSignals, Wait: wait})
	return r.Token, err
}

// WaitForChildren gives the execution up until its dependencies are satisfied.
func (h *Task) WaitForChildren(ctx context.Context) error {
	_, err := h.settle(ctx, completion.Outcome{Kind: completion.KindAwaitsChildren})
	return err
}

// Release gives the execution back.
func (h *Task) Release(ctx context.Context, reason string) error {
	_, err := h.settle(ctx, completion.Released(reason))
	return err
}
