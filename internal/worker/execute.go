package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// runAttempt runs the function and returns how the attempt ended. All calls that the function began are complete
// when runAttempt returns.
func (t *Task) runAttempt(ctx context.Context) attemptOutcome {
	result, err := t.execute(ctx)
	t.finishUp()
	return t.outcomeOf(result, err)
}

// finishUp completes the progress reports, logs, frames and reservations that the function began, before the end of
// the attempt is reported.
func (t *Task) finishUp() {
	t.progress.finish()
	t.logs.finish()
	t.frames.finish()
	if t.logs.finish() {
		t.frames.finish()
	}
	t.usage.releaseReservations()
}

// execute prepares the input, runs the function or the child run of the node, and returns its encoded result.
func (t *Task) execute(ctx context.Context) ([]byte, error) {
	handler := t.run.worker.handlers[t.claimed.Kind]
	if handler == nil && t.claimed.Kind != submit.MapKind && t.claimed.Kind != submit.SubKind {
		return nil, fmt.Errorf("activity %q is not registered with this worker", t.claimed.Kind)
	}
	plan, err := t.run.plans.Decode(t.claimed.Policy)
	if err != nil {
		return nil, undecodable(t.locate(err))
	}
	input, err := t.input(ctx, plan)
	if err != nil {
		return nil, err
	}
	switch {
	case plan.Child == nil:
	case plan.Child.MaxTurns > 0:
		return t.runLoop(ctx, handler, plan, input)
	case plan.Child.Expand:
		return t.runExpansion(ctx, handler, plan, input)
	default:
		if err := t.begin(); err != nil {
			return nil, err
		}
		return runChild(ctx, &t.attempt, &t.usage, *plan.Child, input)
	}
	if err := t.journal.read(ctx, &t.attempt); err != nil {
		return nil, err
	}
	return t.call(ctx, handler, plan, input)
}

// errNoRoom ends an attempt whose function may not begin, since a limit counts as many starts as it allows.
var errNoRoom = errors.New(reasonNoRoom)

// call runs the function within its time limits, and returns its encoded result.
func (t *Task) call(
	ctx context.Context, handler activity.Handler, plan submit.NodePlan, input []byte,
) ([]byte, error) {
	generation, state, err := t.journal.carried()
	switch {
	case err != nil:
		return nil, err
	case state != nil && (plan.Child == nil || plan.Child.Expand):
		input = state
	}
	if err := t.begin(); err != nil {
		return nil, err
	}
	limits := t.limits(plan)
	ctx, cancel := limits.context(ctx)
	defer cancel()
	if plan.Heartbeat > 0 {
		stop := t.watchHeartbeat(plan.Heartbeat)
		defer stop()
	}
	e := &execution{stepRecorder: stepRecorder{attempt: &t.attempt, journal: &t.journal}, task: t, until: limits.until}
	t.overstay.begin(limits.until)
	result, err := invoke(activitycontext.With(ctx, e), handler, input, t)
	if err != nil && ctx.Err() != nil {
		return nil, interrupted(context.Cause(ctx), err)
	}
	if _, undecoded := errors.AsType[*activity.DecodeError](err); undecoded {
		return nil, t.locate(err)
	}
	if err = e.checkSuspension(err); err != nil {
		return nil, t.continued(handler, generation, err)
	}
	if plan.Cases != nil {
		if result, err = plan.Cases.Decide(t.claimed.Node, result); err != nil {
			return nil, err
		}
	}
	if err := t.checkResult(result); err != nil {
		return nil, err
	}
	return result, nil
}

// checkResult returns the failure of an attempt whose result is too large; nil for others.
func (t *Task) checkResult(result []byte) error {
	if len(result) <= submit.MaxResult {
		return nil
	}
	return activity.NonRetryable(activity.Category(
		fmt.Errorf("%w: the result of node %s has %d bytes, at most %d are allowed", engine.ErrTooLarge, t.claimed.Node,
			len(result), submit.MaxResult), engine.CategoryTooLarge))
}

// interrupted joins the error of a function whose context ended with the cause of that end.
func interrupted(cause, err error) error {
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// errExited is the failure of a function that ended its goroutine, as testing's FailNow does.
var errExited = activity.Category(errors.New("the function ended its goroutine (runtime.Goexit)"),
	activity.CategoryPanic)

// invoke runs the function and turns a panic into an error. If the function ends the goroutine, invoke does
// not return; the deferred functions of its callers find the error in t.exited.
func invoke(ctx context.Context, h activity.Handler, input []byte, t *Task) (result []byte, err error) {
	returned := false
	t.stack = ""
	defer func() {
		t.overstay.functionEnded()
		r := recover()
		switch {
		case r != nil:
			t.stack = stackOfPanic()
			if p, elsewhere := r.(*activitycontext.Panic); elsewhere {
				r, t.stack = p.Value, string(p.Stack)
			}
			t.log(slog.LevelError, engine.EventActivityPanicked, "the function of the activity panicked",
				slog.Any("panic", r), slog.String("stack", t.stack))
			t.logs.panicked(r, t.stack)
			result, err = nil, activity.Category(fmt.Errorf("panic: %v", r), activity.CategoryPanic)
		case !returned:
			t.stack = stackOfPanic()
			t.log(slog.LevelError, engine.EventActivityPanicked, "the function of the activity ended its goroutine",
				slog.Any("panic", errExited), slog.String("stack", t.stack))
			t.exited = errExited
			if ctx.Err() != nil {
				t.exited = interrupted(context.Cause(ctx), errExited)
			}
		}
	}()
	if around := t.run.worker.config.Invoke; around != nil {
		result, err = around(ctx, h, input)
	} else {
		result, err = h.Invoke(ctx, input)
	}
	if err != nil {
		_ = err.Error() // Error is code of the activity too: a panic in it is handled here
	}
	returned = true
	return result, err
}

// stackOfPanic returns the stack of the goroutine without the frames of the deferred function that asks for it.
func stackOfPanic() string {
	stack := string(debug.Stack())
	head, frames, _ := strings.Cut(stack, "\n")
	for _, begin := range []string{"panic(", "runtime.Goexit("} {
		if at := strings.Index(frames, "\n"+begin); at >= 0 {
			return head + frames[at:]
		}
	}
	return stack
}

// limits are the times that bound an attempt; the zero time is no limit.
type limits struct {
	startToClose time.Time
	deadline     time.Time
	until        time.Time // the earlier of the two
}

// limits returns the limits of the attempt by the plan of its node.
func (t *Task) limits(plan submit.NodePlan) limits {
	l := limits{deadline: t.claimed.DeadlineAt}
	if plan.StartToClose > 0 {
		l.startToClose = t.begun.Add(plan.StartToClose)
	}
	l.until = l.deadline
	if l.until.IsZero() || (!l.startToClose.IsZero() && l.startToClose.Before(l.until)) {
		l.until = l.startToClose
	}
	return l
}

// context returns a context that ends at the earlier limit, with the matching error as its cause.
func (l limits) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.until.IsZero() {
		return ctx, func() {}
	}
	cause := engine.ErrDeadline
	if l.until.Equal(l.startToClose) {
		cause = engine.ErrStartToClose
	}
	return context.WithDeadlineCause(ctx, l.until, cause)
}

// input composes the node's input from the run's input and the results of its upstreams.
func (t *Task) input(ctx context.Context, plan submit.NodePlan) ([]byte, error) {
	if plan.Input == nil {
		return t.claimed.Payload, nil
	}
	results := make(map[string][]byte, len(t.claimed.Inputs))
	for _, in := range t.claimed.Inputs {
		results[in.Name] = in.Result
	}
	if !t.claimed.InputsComplete {
		if err := t.readInputs(ctx, results); err != nil {
			return nil, err
		}
	}
	if err := t.addFailures(ctx, *plan.Input, results); err != nil {
		return nil, err
	}
	input, err := plan.Input.Resolve(t.claimed.FlowInput, results)
	if err != nil {
		return nil, undecodable(t.locate(fmt.Errorf("input: %w", err)))
	}
	if plan.Input.Kind == flowgraph.ExprConst {
		input = bytes.Clone(input) // the plan is shared
	}
	return input, nil
}

// readInputs adds to results those that were too many or too large for the reply of the claim.
func (t *Task) readInputs(ctx context.Context, results map[string][]byte) error {
	call := enginerpc.ReadInputsCall{Partition: t.shard.Partition, ExecutionID: t.claimed.ExecutionID}
	for {
		var reply enginerpc.ReadInputsReply
		err := t.retryUntilKnown(ctx, func() (err error) {
			reply, err = t.run.session.Backend.ReadInputs(ctx, call)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the inputs of node %s: %w", t.claimed.Node, err)
		}
		for _, in := range reply.Inputs {
			results[in.Name] = in.Result
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return nil
		}
	}
}

// watchHeartbeat fails the attempt if the function does not call Heartbeat within limit, even if the function
// never returns. The caller calls stop when the function has returned; stop waits for the watch to end.
func (t *Task) watchHeartbeat(limit time.Duration) (stop func()) {
	begun := time.Now()
	t.lastBeat.Store(&begun)
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		timer := time.NewTimer(limit)
		defer timer.Stop()
		for {
			select {
			case <-done:
				return
			case <-timer.C:
			}
			if left := limit - time.Since(*t.lastBeat.Load()); left > 0 {
				timer.Reset(left)
				continue
			}
			if t.settle() {
				err := activity.Category(fmt.Errorf("%w: none for %s", engine.ErrHeartbeatTimeout, limit),
					activity.CategoryTimeout)
				t.logFailure(err)
				t.cancel(engine.ErrHeartbeatTimeout)
				t.report(attemptOutcome{kind: outcomeKindFailed, err: err}, 0)
			}
			return
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}
