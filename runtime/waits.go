package runtime

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/answer"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/waitlist"
)

// Waitpoint is a place at which a run waits, or has waited, for signals, with the token for these.
type Waitpoint struct {
	fabrictype.Wait
	// Token authorizes signals to the waitpoint. Handle it like a password.
	Token activity.Token `json:"token,omitzero"`
}

// waitpointOf returns a waitpoint for callers of the API.
func waitpointOf(w waitlist.Waitpoint) Waitpoint { return Waitpoint{w.Wait, w.Token} }

// Waitpoints returns the open waitpoints of the run with their tokens, the oldest first. It includes the waitpoints of
// open child runs, of maps and sub-flows at any depth; Waitpoint.Flow and Waitpoint.Run name the run that ResumeWait,
// CancelWait and ReceivedSignals are for. The error wraps ErrNotFound.
func (r *RunRef) Waitpoints(ctx context.Context) ([]Waitpoint, error) {
	return r.waitpoints(ctx, false)
}

// AllWaitpoints returns the waitpoints of Waitpoints, and those whose wait is over.
func (r *RunRef) AllWaitpoints(ctx context.Context) ([]Waitpoint, error) {
	return r.waitpoints(ctx, true)
}

func (r *RunRef) waitpoints(ctx context.Context, closed bool) ([]Waitpoint, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	found, err := waitlist.OfRun(ctx, r.client.session, r.at, closed)
	if err != nil {
		return nil, r.errorf("waitpoints of", engine.RunFault(err))
	}
	var waits []Waitpoint
	for _, w := range found {
		if !w.Timer {
			waits = append(waits, waitpointOf(w))
		}
	}
	return waits, nil
}

// ResumeWait ends a wait of the run without signals, on behalf of an operator: the wait continues as if a signal with
// that payload, encoded as JSON, had ended it. The error wraps ErrOver when the wait has ended or does not belong
// to the run, ErrTooLarge for a payload above 64 KiB, or ErrInvalid for one that cannot be encoded or does
// not satisfy the AnswerSchema of a wait for one payload, with a *fabrictype.ValueError that has all its faults.
func (r *RunRef) ResumeWait(ctx context.Context, w Waitpoint, payload any) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.ResumeWait, w.Node, func(ctx context.Context, r *RunRef) error {
			return r.ResumeWait(ctx, w, payload)
		})
	}
	data, err := answer.EncodePayload(payload)
	if err != nil {
		return err
	}
	return r.endWait(ctx, w, answer.End{Resume: true, Result: data})
}

// CancelWait ends a wait of the run and cancels its node. The reason follows the rules of Cancel. The error wraps
// ErrOver as for ResumeWait, or ErrInvalid.
func (r *RunRef) CancelWait(ctx context.Context, w Waitpoint, reason string) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.CancelWait, w.Node, func(ctx context.Context, r *RunRef) error {
			return r.CancelWait(ctx, w, reason)
		})
	}
	return r.endWait(ctx, w, answer.End{Reason: reason})
}

// endWait ends a wait.
func (r *RunRef) endWait(ctx context.Context, w Waitpoint, end answer.End) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	fail := func(err error) error {
		return r.errorf(fmt.Sprintf("end the wait %s of node %s of", w.ID, w.Node), err)
	}
	if err := engine.CheckReason(end.Reason); err != nil {
		return fail(err)
	}
	if err := engine.CheckText("actor", r.client.actor, engine.MaxActor); err != nil {
		return fail(err)
	}
	if w.ID == "" || w.ExecutionID == "" {
		return r.errorf("end a wait of", invalid("the waitpoint has no id: use one that Waitpoints returned"))
	}
	end.Actor = r.client.actorName()
	if err := r.client.answers.End(ctx, r.client.session, r.at, w.Wait, end); err != nil {
		return fail(err)
	}
	return nil
}

// ParseToken parses the text that activity.Token.Reveal returned. It returns ErrInvalidToken for a text that cannot be
// a token. It does not verify the signature; the engine does when the token is used.
func ParseToken(text string) (activity.Token, error) { return engine.ParseToken(text) }
