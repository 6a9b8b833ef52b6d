package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/answer"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Signal is a message to a waitpoint.
type Signal struct {
	// Name is the kind of signal, such as "approve". The rules for it are those for names of activities.
	Name string
	// Payload is encoded as JSON. A json.RawMessage is sent unchanged; nil is sent as null.
	Payload any
	// Source identifies the sender, for the record and for waits that count distinct sources: at most 256 bytes of
	// UTF-8 without control characters. Defaults to "client".
	Source string
	// Category classifies the signal for the record and for who receives it: at most 256 bytes of UTF-8 without control
	// characters. Defaults to "external".
	Category string
	// CorrelationID relates the signal to something else, such as a request or a case, for the record and for who
	// receives it: at most 256 bytes of UTF-8 without control characters. Defaults to none.
	CorrelationID string
	// IdempotencyKey identifies the signal: a second signal with the same key for the same waitpoint is a duplicate and
	// gets the result of the first. By the name of a function's wait, that holds for its later generations too
	// (activity.ContinueAsNew), as long as it is among the last 256 waits and signals of the former ones. Defaults to a
	// random key, so that each call sends a new signal.
	IdempotencyKey string
}

// Signal delivers a signal to the waitpoint that the token identifies, from any program that can reach the engine. One
// of a client with an actor (Client.As) is in the audit log.
// Delivering a signal twice with the same IdempotencyKey has no further effect. A wait that is over or has expired is
// reported as an outcome, not as an error.
//
// The error wraps ErrSignalDoesNotCount for a signal that an open wait does not count; its text says why, with the
// names that count. Otherwise it is ErrInvalidToken for a token that is not valid, ErrTooLarge when the signal, or all
// signals of the wait together (1 MiB of payloads and texts), exceed a limit, or matches ErrInvalid for an invalid name
// or text, and for a payload that cannot be encoded, does not satisfy the wait's schema (activity.AnswerSchema) or
// contradicts the name of the signal (fabrictype.SignalChoice), then with a *fabrictype.ValueError that has all its
// faults. Nothing was changed then, and the wait continues.
func (c *Client) Signal(ctx context.Context, token activity.Token, s Signal) (fabrictype.SignalResult, error) {
	if err := c.ready(ctx); err != nil {
		return fabrictype.SignalResult{}, err
	}
	if c.isIntercepted() {
		return c.interceptedSignal(ctx, token, s)
	}
	send := func(ctx context.Context) (fabrictype.SignalResult, error) {
		return c.answers.SendToToken(ctx, c.session, token, answer.Signal(s))
	}
	if c.actor == "" {
		return send(ctx)
	}
	w, err := c.Waitpoint(ctx, token)
	switch {
	case errors.Is(err, ErrNotInContract):
		return send(ctx) // the contract has neither texts of waits nor an audit log
	case err != nil:
		return fabrictype.SignalResult{}, err
	case w.State == fabrictype.WaitClosed:
		return send(ctx)
	}
	signal := answer.Signal(s)
	return answer.Audited(ctx, c.session, c.actor, w.Flow, w.Run, w.Node, &signal, send)
}

// interceptedSignal is Signal through the interceptors.
func (c *Client) interceptedSignal(
	ctx context.Context, token activity.Token, s Signal,
) (result fabrictype.SignalResult, err error) {
	call := interceptor.ClientCall{Operation: interceptor.Signal}
	err = c.intercept(ctx, call, func(ctx context.Context) (err error) {
		result, err = c.plain().Signal(ctx, token, s)
		return err
	})
	return result, err
}

// interceptedSignalWait is SignalWait through the interceptors.
func (r *RunRef) interceptedSignalWait(
	ctx context.Context, w WaitName, s Signal,
) (result fabrictype.SignalResult, err error) {
	err = r.intercept(ctx, interceptor.Signal, w.Node, func(ctx context.Context, r *RunRef) (err error) {
		result, err = r.SignalWait(ctx, w, s)
		return err
	})
	return result, err
}

// WaitName names a wait of a run, whether it is open, over, or has not begun.
type WaitName struct {
	// Node is the waitpoint node, or the node whose activity waits.
	Node string
	// Step is the name of the wait in the activity, as Waitpoint.Step has it; empty for a waitpoint node.
	Step string
}

// String returns the node, and the step after a slash.
func (w WaitName) String() string {
	if w.Step == "" {
		return w.Node
	}
	return w.Node + "/" + w.Step
}

// SignalWait delivers a signal to a wait of the run by its name, without a token: for programs of the run's own
// service, which need not know whether the wait has begun. The signal of a client with an actor (Client.As) is in the
// audit log. A signal that comes before the wait is kept (SignalAccepted), also while the function continues as new,
// and may end the wait when it begins. A wait that early signals have decided takes no further ones (SignalClosed): a
// waitpoint node at once; for a function, only its wait defines how many it needs, so the surplus is kept for the next
// wait of that name after activity.ContinueAsNew. A node that ended without having waited takes none (SignalClosed).
// After a rerun, the signal goes to the latest wait of that name.
//
// The error wraps ErrNotFound for the run or the node, ErrInvalid for a node that does not wait in that way, an error
// of Client.Signal, or in contract mode ErrNotInContract. Nothing has changed then. The call is one atomic step; a wait
// with a schema (activity.AnswerSchema) takes a second one.
func (r *RunRef) SignalWait(ctx context.Context, w WaitName, s Signal) (fabrictype.SignalResult, error) {
	if r.isIntercepted() {
		return r.interceptedSignalWait(ctx, w, s)
	}
	if err := r.ready(ctx); err != nil {
		return fabrictype.SignalResult{}, err
	}
	signal := answer.Signal(s)
	send := func(ctx context.Context) (fabrictype.SignalResult, error) { return r.signalWait(ctx, w, signal) }
	var result fabrictype.SignalResult
	var err error
	if actor := r.client.actor; actor != "" {
		result, err = answer.Audited(ctx, r.client.session, actor, r.at.Flow, r.at.ID, w.Node, &signal, send)
	} else {
		result, err = send(ctx)
	}
	if err != nil {
		return fabrictype.SignalResult{}, r.errorf(fmt.Sprintf("signal %q to %s of", s.Name, w), err)
	}
	return result, nil
}

func (r *RunRef) signalWait(ctx context.Context, w WaitName, s answer.Signal) (fabrictype.SignalResult, error) {
	store, err := library(ctx, r.client, "signals by name")
	if err != nil {
		return fabrictype.SignalResult{}, err
	}
	return r.client.answers.SendToNode(ctx, r.client.session, store, r.at, w.Node, w.Step, s)
}

// WithSignal delivers a signal to a wait of the run, and starts the run if none exists with the id of WithID: both in
// one atomic step, so that no signal is lost between two calls, and none starts a second run. Use it for runs that
// gather messages: the first message starts the run of its order, the others join it.
//
// Start signals a run that exists whatever its input and graph are, and also for a program with another definition; a
// run that is over takes no signal (SignalClosed), and no other one is started. Run.SignalResult has the result, as
// RunRef.SignalWait returns it. Without WithID each call starts a run. The signal of a client with an actor (Client.As)
// is in the audit log.
//
// The error of Start may then be one of RunRef.SignalWait. After ErrSignalDoesNotCount, the run is there. If it is
// about a run that exists, that run is unchanged. A new run is not started if its signal is refused. In contract mode
// the error wraps ErrNotInContract. WithSignal does not go with StartMany, WithKey, WithThrottle and WithDebounce.
func WithSignal(w WaitName, s Signal) StartOption {
	return startFunc(func(c *startConfig) { c.signal = &startSignal{w, s} })
}

// refuse returns an error for a start that cannot deliver a signal.
func (s *startSignal) refuse() error {
	if s == nil {
		return nil
	}
	return invalid("WithSignal is an option of Start, not of StartMany")
}

// SignalResult returns the result of the signal that WithSignal delivered; the zero value for a run that was started
// without.
func (r *Run[Out]) SignalResult() fabrictype.SignalResult {
	if r == nil || r.signalled == nil {
		return fabrictype.SignalResult{}
	}
	return *r.signalled
}

// startOrSignal starts a run with a signal, or signals the run that exists.
func startOrSignal[Out any](
	ctx context.Context, c *Client, plan *submit.RunPlan, to *startSignal, decode decoder[Out],
) (*Run[Out], error) {
	w, s := to.wait, answer.Signal(to.signal)
	var existed bool
	send := func(ctx context.Context) (result fabrictype.SignalResult, err error) {
		if _, err := library(ctx, c, "signals by name"); err != nil {
			return result, err
		}
		existed, result, err = c.answers.StartOrSignal(ctx, plan, w.Node, w.Step, s, c.submit)
		return result, err
	}
	var result fabrictype.SignalResult
	var err error
	if c.actor != "" {
		result, err = answer.Audited(ctx, c.session, plan.Creator, plan.Flow, plan.Run, w.Node, &s, send)
	} else {
		result, err = send(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("signal %q to %s of run %s of flow %s: %w", s.Name, w, plan.Run, plan.Flow, err)
	}
	ref := &RunRef{client: c, at: plan.Located()}
	return &Run[Out]{RunRef: ref, decode: decode, existed: existed, signalled: &result}, nil
}
