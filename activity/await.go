package activity

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

var (
	// ErrWaitTimedOut is returned by Await and AwaitSignals after a timeout with ResumeOnTimeout.
	ErrWaitTimedOut = SentinelError("flowfabric.wait_timed_out", "no signal in time")
	// ErrNoWorker is returned by functions that need a worker, or activitytest in a test, outside of both.
	ErrNoWorker = errors.New("there is no worker; a test gives the function a context of package activitytest")
	// ErrAwaitIgnored is the failure of a function that did not return the error of Await. It is not retried.
	ErrAwaitIgnored = errors.New("the error of activity.Await was not returned")
)

// Signal is an external message that ended a wait, alone or with others.
type Signal[T any] struct {
	// ID identifies the signal in the engine.
	ID string `json:"id,omitempty"`
	// Name is the signal's name, such as "approve".
	Name string `json:"name"`
	// Category is the sender's classification of the signal; the default is "external".
	Category string `json:"category,omitempty"`
	// SourceType is the kind of the sender, "client" for runtime's Client.Signal.
	SourceType string `json:"source_type,omitempty"`
	// CorrelationID is the sender's text that relates the signal to something else; empty if the sender set none.
	CorrelationID string `json:"correlation_id,omitempty"`
	// Source is the sender as the sender gave it.
	Source string `json:"source"`
	// Payload is the decoded payload.
	Payload T `json:"payload"`
	// At is when the engine accepted it, in milliseconds since 1970.
	At int64 `json:"at"`
}

// Time is when the engine accepted the signal.
func (s Signal[T]) Time() time.Time { return time.UnixMilli(s.At).UTC() }

// Await waits for a signal and returns its payload; if several signals are needed, the payload of the last one.
//
// A waiting function occupies no worker: Await returns an error, which the function must return, as it is or wrapped.
// The worker then suspends the execution and frees the slot. When the signal has arrived, the function runs again from
// its beginning, possibly on another worker, and this Await returns the payload. The code before it runs again, too;
// use Step for work that must not be repeated.
//
//	approval, err := activity.Await[Approval](ctx, "approve", activity.Signals("approve", "reject"))
//	if err != nil {
//		return Release{}, err
//	}
//
// The name identifies the wait. Calls with the same name, in a loop for example, are distinguished by their order,
// which must be the same in every run of the function. A payload that cannot be decoded into a T is an error of
// category "decode" that is not retried. Await within the function of a step is refused with ErrInvalid, and so is a
// wait whose name another goroutine waits for.
//
// A function has at most 256 waits and steps (Step) in all, until it starts anew with ContinueAsNew.
func Await[T any](ctx context.Context, name string, opts ...WaitOption) (T, error) {
	var payload T
	data, err := await(ctx, name, reflect.TypeFor[T](), false, opts)
	if err != nil {
		return payload, err
	}
	return decodeAwaited[T](name, data)
}

// AwaitSignals is like Await and returns all signals that ended the wait, in the order of their arrival, with names and
// sources.
func AwaitSignals[T any](ctx context.Context, name string, opts ...WaitOption) ([]Signal[T], error) {
	data, err := await(ctx, name, reflect.TypeFor[T](), true, opts)
	if err != nil {
		return nil, err
	}
	return decodeAwaited[[]Signal[T]](name, data)
}

// AwaitApproval is AwaitSignals for an approval of one person, or of as many as Approvers sets, and returns the
// approvals. A rejection is an error of category "rejected" that names who rejected and the comment, and is not retried.
func AwaitApproval(ctx context.Context, name string, opts ...WaitOption) ([]Signal[Decision], error) {
	signals, err := AwaitSignals[Decision](ctx, name, append([]WaitOption{Approvers(1)}, opts...)...)
	if err != nil || len(signals) == 0 || signals[len(signals)-1].Name != activityspec.Reject {
		return signals, err
	}
	last := signals[len(signals)-1]
	text := "rejected by " + last.Source
	if last.Payload.Comment != "" {
		text += ": " + last.Payload.Comment
	}
	return nil, NonRetryable(Category(errors.New(text), activityspec.CategoryRejected))
}

func await(ctx context.Context, name string, payload reflect.Type, collect bool, opts []WaitOption) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("await %q: %w", name, err) }
	if err := activityspec.CheckName(name); err != nil {
		return fail(NonRetryable(err))
	}
	w := activityspec.NewWait(opts...)
	if err := w.Validate(); err != nil {
		return fail(NonRetryable(err))
	}
	steps, ok := activitycontext.StepsFrom(ctx)
	if !ok {
		return fail(noExecution(ctx))
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	step, err := nextWait(ctx, steps, name)
	if err != nil {
		return fail(err)
	}
	got, err := awaitStep(ctx, steps, name, step, activitycontext.Wait{
		Signals: w.Signals, All: w.All, Count: w.Count, Distinct: w.Distinct, Decisive: w.Decisive, Timeout: w.Timeout,
		OnTimeout: string(w.OnTimeout),
		Collect:   collect, Text: textOf(w, payload),
	})
	if err != nil {
		return nil, err
	}
	if got.TimedOut {
		return fail(ErrWaitTimedOut)
	}
	return got.Data, nil
}

// textOf returns the texts of a wait for the people who answer it; payload is the type that payloads are decoded into,
// nil if it is not known.
func textOf(w activityspec.Wait, payload reflect.Type) activitycontext.WaitText {
	return activitycontext.WaitText{
		Title: w.Title, Question: w.Question, Audience: w.Audience, AnswerSchema: w.AnswerSchema,
		Payload: cmp.Or(payload, w.Payload),
	}
}

func decodeAwaited[T any](name string, data []byte) (T, error) {
	var value T
	if len(data) == 0 {
		data = []byte("null") // a signal without a payload
	}
	if err := json.Unmarshal(data, &value); err != nil {
		return value, NonRetryable(Category(fmt.Errorf("await %q: the signal's payload does not decode into %T: %w",
			name, value, err),
			activityspec.CategoryDecode))
	}
	return value, nil
}

var errOnlyText = errors.New("signals and timeouts are those of its Await: only what is asked can be said here")

// defaultWithin is how long an opened waitpoint stays open before its Await is reached.
const defaultWithin = 24 * time.Hour

// OpenWaitpoint opens the waitpoint of the next Await (or AwaitSignals) of that name before the function waits there,
// and returns its token, for an external system that sends the signal. A signal that arrives before the Await is kept.
// Further calls before the Await, also after a retry, return the same token. within limits the time from opening the
// waitpoint to its Await, after which early signals are lost: 0 means 24 hours, and at most are 10 years.
//
// Title, Question, Audience, AnswerSchema and Answer describe the question to the holder of the token, until the Await
// describes it anew; other options are an error. Without AnswerSchema and Answer, payloads are not checked before the
// Await. The waitpoint stays open when the function starts anew (ContinueAsNew).
//
// To hand the token over only once, open the waitpoint and send the token in one step:
//
//	_, err := activity.Step(ctx, "ask", func(ctx context.Context) (struct{}, error) {
//		token, err := activity.OpenWaitpoint(ctx, "answer", 0)
//		if err != nil {
//			return struct{}{}, err
//		}
//		return struct{}{}, ask(ctx, token.Reveal())
//	})
//	…
//	answer, err := activity.Await[Answer](ctx, "answer")
func OpenWaitpoint(ctx context.Context, name string, within time.Duration, opts ...WaitOption) (Token, error) {
	fail := func(err error) (Token, error) { return Token{}, fmt.Errorf("open waitpoint %q: %w", name, err) }
	if err := activityspec.CheckName(name); err != nil {
		return fail(NonRetryable(err))
	}
	stay := activityspec.Milliseconds(cmp.Or(within, defaultWithin))
	if stay <= 0 || stay > activityspec.MaxWait {
		return fail(NonRetryable(fmt.Errorf("within %s: must be positive and at most %s", within, activityspec.MaxWait)))
	}
	w := activityspec.NewWait(opts...)
	if err := w.Validate(); err != nil {
		return fail(NonRetryable(err))
	}
	if !w.HasOnlyText() {
		return fail(NonRetryable(errOnlyText))
	}
	steps, ok := activitycontext.StepsFrom(ctx)
	if !ok {
		return fail(noExecution(ctx))
	}
	step := stepName(name, steps.Names().Count(activitycontext.AwaitKind, name)+1)
	text, err := steps.Open(ctx, step, stay, textOf(w, nil))
	if err != nil {
		return fail(err)
	}
	return NewToken(text), nil
}
