package runtime

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/answer"
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
// The error is ErrInvalidToken for a token that is not valid, ErrTooLarge when the signal, or all signals of the wait
// together (1 MiB of payloads and texts), exceed a limit, or matches ErrInvalid for an invalid name or text, and for a
// payload that cannot be encoded or does not satisfy the wait's schema (activity.AnswerSchema), then with a
// *fabrictype.ValueError that has all its faults. Nothing was changed then, and the wait continues.
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
