package task

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/payload"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/child"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/journal"
)

// RunAttempt runs the function and returns how the attempt ended. All calls that the function began are complete
// when RunAttempt returns.
func (t *Task) RunAttempt(ctx context.Context) completion.Outcome {
	result, err := t.execute(ctx)
	err = t.misfit(ctx, err)
	t.FinishUp()
	return t.OutcomeOf(result, err)
}

// FinishUp completes the progress reports, logs, frames and reservations that the function began, before the end of
// the attempt is reported.
func (t *Task) FinishUp() {
	t.Output.Finish()
	t.usage.ReleaseReservations()
}

// execute prepares the input, runs the function or the child run of the node, and returns its encoded result.
func (t *Task) execute(ctx context.Context) ([]byte, error) {
	handler := t.Services.handlers[t.Claimed.Kind]
	if handler == nil && t.Claimed.Kind != submit.MapKind && t.Claimed.Kind != submit.SubKind {
		return nil, fmt.Errorf("activity %q is not registered with this worker", t.Claimed.Kind)
	}
	plan, err := t.Services.Plans.Decode(t.Claimed.Policy)
	if err != nil {
		return nil, completion.Undecodable(err)
	}
	input, err := t.Input(ctx, plan)
	if err != nil {
		return nil, err
	}
	switch {
	case plan.Child == nil:
	case plan.Child.MaxTurns > 0:
		return t.childNode(handler, plan).RunLoop(ctx, input)
	case plan.Child.Expand:
		return t.childNode(handler, plan).RunExpansion(ctx, input)
	default:
		if err := t.begin(); err != nil {
			return nil, err
		}
		return t.childNode(handler, plan).Run(ctx, input)
	}
	if err := t.Journal.Read(ctx, &t.Attempt); err != nil {
		return nil, err
	}
	return t.call(ctx, handler, plan, input)
}

// childNode returns the node of the task as one with a child run. handler is nil for nodes without a function.
func (t *Task) childNode(handler activity.Handler, plan submit.NodePlan) *child.Node {
	return &child.Node{
		Attempt: &t.Attempt, Usage: &t.usage, Journal: &t.Journal, Definitions: &t.Services.definitions,
		Spec: plan.Child, Handler: handler,
		Call: func(ctx context.Context, input []byte) ([]byte, error) { return t.call(ctx, handler, plan, input) },
	}
}

// call runs the function within its time limits, and returns its encoded result.
func (t *Task) call(
	ctx context.Context, handler activity.Handler, plan submit.NodePlan, input []byte,
) ([]byte, error) {
	generation, state, err := t.Journal.Carried()
	switch {
	case err != nil:
		return nil, err
	case state != nil && (plan.Child == nil || plan.Child.Expand):
		input = state
	}
	if err := t.begin(); err != nil {
		return nil, err
	}
	limits := t.Limits(plan)
	ctx, cancel := limits.Context(ctx)
	defer cancel()
	if plan.Heartbeat > 0 {
		stop := t.WatchHeartbeat(plan.Heartbeat)
		defer stop()
	}
	e := &Execution{Recorder: journal.Recorder{Attempt: &t.Attempt, Journal: &t.Journal}, Task: t, Until: limits.Until}
	t.FunctionBegins(limits.Until)
	result, err := invoke(e.Context(ctx), handler, input, t)
	if err != nil && ctx.Err() != nil {
		return nil, interrupted(context.Cause(ctx), err)
	}
	if _, undecoded := errors.AsType[*activityspec.DecodeError](err); undecoded {
		return nil, err
	}
	if err = e.CheckSuspension(err); err != nil {
		return nil, t.continued(handler, generation, err)
	}
	if plan.Cases != nil {
		if result, err = plan.Cases.Decide(t.Claimed.Node, result); err != nil {
			return nil, err
		}
		result = t.Run.Core.Exempt(result)
	}
	if err := t.CheckResult(result); err != nil {
		return nil, err
	}
	return result, nil
}

// CheckResult returns the failure of an attempt whose result is too large; nil for others.
func (t *Task) CheckResult(result []byte) error {
	if len(result) <= submit.MaxResult {
		return nil
	}
	return activity.NonRetryable(activity.Category(
		fmt.Errorf("%w: the result of node %s has %d bytes, at most %d are allowed", engine.ErrTooLarge, t.Claimed.Node,
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
	activityspec.CategoryPanic)

// invoke runs the function and turns a panic into an error. If the function ends the goroutine, invoke does
// not return; the deferred functions of its callers find the error in t.exited.
func invoke(ctx context.Context, h activity.Handler, input []byte, t *Task) (result []byte, err error) {
	returned := false
	t.Stack = ""
	defer func() {
		t.FunctionEnded()
		r := recover()
		switch {
		case r != nil:
			t.Stack = stackOfPanic()
			if p, elsewhere := r.(*activitycontext.Panic); elsewhere {
				r, t.Stack = p.Value, string(p.Stack)
			}
			t.Log(slog.LevelError, observe.EventActivityPanicked, "the function of the activity panicked",
				slog.Any("panic", r), slog.String("stack", t.Stack))
			t.Output.Panicked(r, t.Stack)
			result, err = nil, activity.Category(fmt.Errorf("panic: %v", r), activityspec.CategoryPanic)
		case !returned:
			t.Stack = stackOfPanic()
			t.Log(slog.LevelError, observe.EventActivityPanicked, "the function of the activity ended its goroutine",
				slog.Any("panic", errExited), slog.String("stack", t.Stack))
			t.Exited = errExited
			if ctx.Err() != nil {
				t.Exited = interrupted(context.Cause(ctx), errExited)
			}
		}
	}()
	if around := t.Services.Around; around != nil {
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

// stackOfPanic returns the stack of the goroutine without the frames of the deferred function that calls it.
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

// limits are the times that bound an attempt; the zero time means unlimited.
type limits struct {
	startToClose time.Time
	deadline     time.Time
	Until        time.Time // the earlier of the two
}

// Limits returns the limits of the attempt by the plan of its node.
func (t *Task) Limits(plan submit.NodePlan) limits {
	l := limits{deadline: t.Claimed.DeadlineAt}
	if plan.StartToClose > 0 {
		l.startToClose = t.Begun.Add(plan.StartToClose)
	}
	l.Until = l.deadline
	if l.Until.IsZero() || (!l.startToClose.IsZero() && l.startToClose.Before(l.Until)) {
		l.Until = l.startToClose
	}
	return l
}

// Context returns a context that ends at the earlier limit, with the matching error as its cause.
func (l limits) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.Until.IsZero() {
		return ctx, func() {}
	}
	cause := engine.ErrDeadline
	if l.Until.Equal(l.startToClose) {
		cause = engine.ErrStartToClose
	}
	return context.WithDeadlineCause(ctx, l.Until, cause)
}

// Input composes the node's input from the run's input and the results of its upstreams.
func (t *Task) Input(ctx context.Context, plan submit.NodePlan) ([]byte, error) {
	if plan.Input == nil {
		return t.Claimed.Payload, nil
	}
	input := plan.Input
	if value, found := t.claimedInput(input); found {
		return value, unreadable(payload.Check(value))
	}
	results := make(map[string][]byte, len(t.Claimed.Inputs))
	for _, in := range t.Claimed.Inputs {
		results[in.Name] = in.Result
	}
	if !t.Claimed.InputsComplete {
		if err := t.readInputs(ctx, results); err != nil {
			return nil, err
		}
	}
	if err := t.addFailures(ctx, *input, results); err != nil {
		return nil, err
	}
	err := payload.Check(t.Claimed.FlowInput)
	for _, result := range results {
		err = cmp.Or(err, payload.Check(result))
	}
	if err != nil {
		return nil, unreadable(err)
	}
	value, err := input.Resolve(t.Claimed.FlowInput, results)
	if err != nil {
		return nil, completion.Undecodable(fmt.Errorf("input: %w", err))
	}
	if input.Kind == flowgraph.ExprConst {
		value = bytes.Clone(value) // the plan is shared
	}
	return value, nil
}

// unreadable returns the error of an attempt that cannot read a value. If its key is missing, another worker may have
// it.
func unreadable(err error) error {
	if err == nil || errors.Is(err, payload.ErrKeyMissing) {
		return err
	}
	return completion.Undecodable(err)
}

// claimedInput returns an input that is one value of the claim, as most are.
func (t *Task) claimedInput(input *flowgraph.Expr) (value []byte, found bool) {
	switch input.Kind {
	case flowgraph.ExprInput:
		return t.Claimed.FlowInput, true
	case flowgraph.ExprNode:
		for i := range t.Claimed.Inputs {
			if in := &t.Claimed.Inputs[i]; in.Name == input.Node {
				return in.Result, true
			}
		}
	}
	return nil, false
}

// readInputs adds to results those that were too many or too large for the reply of the claim.
func (t *Task) readInputs(ctx context.Context, results map[string][]byte) error {
	call := enginerpc.ReadInputsCall{Partition: t.Shard.Partition, ExecutionID: t.Claimed.ExecutionID}
	for {
		var reply enginerpc.ReadInputsReply
		err := t.RetryUntilKnown(ctx, func() (err error) {
			reply, err = t.Run.Session.Backend.ReadInputs(ctx, call)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the inputs of node %s: %w", t.Claimed.Node, err)
		}
		for _, in := range reply.Inputs {
			results[in.Name] = in.Result
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return nil
		}
	}
}

// WatchHeartbeat fails the attempt if the function does not call Heartbeat within limit, even if the function
// never returns. The caller calls stop when the function has returned; stop waits for the watch to end.
func (t *Task) WatchHeartbeat(limit time.Duration) (stop func()) {
	begun := time.Now()
	t.LastBeat.Store(&begun)
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
			if left := limit - time.Since(*t.LastBeat.Load()); left > 0 {
				timer.Reset(left)
				continue
			}
			if t.Settle() {
				err := activity.Category(fmt.Errorf("%w: none for %s", engine.ErrHeartbeatTimeout, limit),
					activityspec.CategoryTimeout)
				t.LogFailure(err)
				t.Cancel(engine.ErrHeartbeatTimeout)
				t.Report(completion.Outcome{Kind: completion.KindFailed, Err: err}, 0)
			}
			return
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}
