package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
)

// maxSignalPayload is the largest encoded payload of a signal: 64 KiB.
const maxSignalPayload = 64 << 10

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
	send := func(ctx context.Context) (fabrictype.SignalResult, error) { return c.signal(ctx, token, s) }
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
	return c.answered(ctx, c.actor, waitEntryName(w.Flow, w.Run, WaitName{Node: w.Node, Step: w.Step}), &s, send)
}

func (c *Client) signal(ctx context.Context, token activity.Token, s Signal) (fabrictype.SignalResult, error) {
	parts, err := engine.OpenToken(token)
	if err != nil {
		return fabrictype.SignalResult{}, err
	}
	signal, err := s.sent()
	if err != nil {
		return fabrictype.SignalResult{}, fmt.Errorf("signal %q: %w", s.Name, err)
	}
	store := c.session.Backend
	if int(parts.Partition.Index) >= c.session.Core.Partitioning().Flow {
		return fabrictype.SignalResult{}, engine.ErrInvalidToken
	}
	reply, err := c.answers.Signal(ctx, store, enginerpc.SignalCall{
		Partition: parts.Partition, ExecutionID: parts.Execution, WaitpointID: parts.Waitpoint,
		WaitpointToken: parts.Signature, OutgoingSignal: signal,
	})
	switch {
	case errors.Is(err, enginecore.ErrInvalidToken):
		return fabrictype.SignalResult{}, engine.ErrInvalidToken
	case err != nil:
		return fabrictype.SignalResult{}, fmt.Errorf("signal %q: %w", s.Name, signalFault(err))
	}
	return deliveryOf(reply, signal.SignalID), nil
}

// signalFault returns the error of a signal in the terms of the package.
func signalFault(err error) error {
	switch {
	case errors.Is(err, enginecore.ErrSignalTooLarge): // a payload that is too large by itself is not sent
		refused, _ := errors.AsType[*enginecore.Error](err)
		bytes := "more"
		if len(refused.Details) > 0 {
			bytes = refused.Details[0]
		}
		return fmt.Errorf("%w: %s: %w", engine.ErrTooLarge, activityspec.TooManySignals(bytes), err)
	case errors.Is(err, enginecore.ErrSignalLimitExceeded), errors.Is(err, errorcode.JournalFull):
		return fmt.Errorf("%w: %w", engine.ErrTooLarge, err)
	case errors.Is(err, errorcode.InvalidInput):
		return invalid("%w", err)
	}
	return err
}

// deliveryOf reads the answer to a signal. A duplicate of itself is the signal's own repeat after a lost reply.
func deliveryOf(reply enginerpc.SignalReply, id enginecore.SignalID) fabrictype.SignalResult {
	d := fabrictype.SignalResult{
		Outcome: fabrictype.SignalOutcome(reply.Outcome), SignalID: string(reply.SignalID),
		First: fabrictype.SignalOutcome(reply.FirstOutcome), Counts: reply.Matched,
	}
	if d.Outcome == fabrictype.SignalDuplicate && reply.SignalID == id && d.First != "" {
		d.Outcome, d.First = d.First, ""
	}
	return d
}

// signalSourceType is the source type in the records of all signals of clients.
const signalSourceType = "client"

// sent checks the signal and returns it as it is sent, with a new id.
func (s *Signal) sent() (enginerpc.OutgoingSignal, error) {
	payload, err := s.encode()
	return enginerpc.OutgoingSignal{
		SignalID: enginecore.SignalID(uuid.NewString()), SignalName: s.Name, SourceType: signalSourceType,
		SourceIdentity: cmp.Or(s.Source, "client"), IdempotencyKey: s.IdempotencyKey, Payload: payload,
		SignalCategory: s.Category, CorrelationID: s.CorrelationID,
	}, err
}

// encode checks the signal and returns its payload.
func (s *Signal) encode() ([]byte, error) {
	if err := activityspec.CheckName(s.Name); err != nil {
		return nil, invalid("name: %w", err)
	}
	if len(s.IdempotencyKey) > activityspec.MaxSignalText {
		return nil, tooLong("idempotency key", s.IdempotencyKey)
	}
	for _, text := range []struct{ what, value string }{
		{"source", s.Source}, {"category", s.Category}, {"correlation id", s.CorrelationID},
	} {
		if len(text.value) > activityspec.MaxSignalText {
			return nil, tooLong(text.what, text.value)
		}
		if err := activityspec.CheckText(text.value); err != nil {
			return nil, invalid("%s %q: %w", text.what, text.value, err)
		}
	}
	return encodePayload(s.Payload)
}

func tooLong(what, text string) error {
	return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", engine.ErrTooLarge, what, len(text),
		activityspec.MaxSignalText)
}

// encodePayload returns the JSON form of a signal's payload.
func encodePayload(payload any) ([]byte, error) {
	data, err := activity.JSON{}.Encode(payload)
	if err != nil {
		return nil, invalid("payload of type %T does not encode: %w", payload, err)
	}
	if len(data) > maxSignalPayload {
		return nil, fmt.Errorf("%w: payload has %d bytes, at most %d are allowed", engine.ErrTooLarge, len(data),
			maxSignalPayload)
	}
	return data, nil
}
