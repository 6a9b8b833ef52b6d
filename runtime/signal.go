package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// Limits of a signal that are checked before anything is sent.
const (
	// MaxSignalPayload is the largest encoded payload of a signal: 64 KiB.
	MaxSignalPayload = 64 << 10
	// maxSignalSource is the longest source of a signal, in bytes.
	maxSignalSource = 256
	// maxIdempotencyKey is the longest idempotency key of a signal, in bytes.
	maxIdempotencyKey = 256
)

// Signal is a message to a waitpoint.
type Signal struct {
	// Name says what is signalled, such as "approve". It follows the rule of names of package activity.
	Name string
	// Payload is encoded as JSON; a json.RawMessage is taken as it is, nil is null.
	Payload any
	// Source says who signals, for the record and for waits that count different sources: at most 256 bytes of
	// UTF-8 without control characters. Defaults to "client".
	Source string
	// IdempotencyKey tells signals apart: one with the same key to the same waitpoint is the same signal, and gets the
	// first one's answer. Defaults to a random one, so that each call is a signal of its own.
	IdempotencyKey string
}

// SignalOutcome is what has become of a signal.
type SignalOutcome string

// The outcomes of a signal.
const (
	// SignalAccepted: it was taken, and the wait goes on or has not begun; SignalResult.Counts tells whether it helps.
	SignalAccepted SignalOutcome = "accepted"
	// SignalResumed: it ended the wait.
	SignalResumed SignalOutcome = "resumed"
	// SignalDuplicate: it has been delivered before; SignalResult.First says with what outcome.
	SignalDuplicate SignalOutcome = "duplicate"
	// SignalClosed: the wait is over.
	SignalClosed SignalOutcome = "closed"
	// SignalExpired: the wait's time was up.
	SignalExpired SignalOutcome = "expired"
)

// SignalResult is the answer to a signal.
type SignalResult struct {
	Outcome SignalOutcome
	// SignalID identifies the signal; of a duplicate, the first one.
	SignalID string
	// First is the outcome of the first delivery when this one was a duplicate.
	First SignalOutcome
	// Counts tells that an accepted signal, or the first one of a duplicate, is one of those that are waited for. One
	// of another name, or from a source that has been heard, is taken and does not count.
	Counts bool
}

// Answer is the outcome of the first delivery: that of this one, unless it was a duplicate.
func (d SignalResult) Answer() SignalOutcome {
	if d.Outcome == SignalDuplicate && d.First != "" {
		return d.First
	}
	return d.Outcome
}

// Signal delivers a signal to the waitpoint of the token, from anywhere: the token says which run it is. To deliver one
// signal twice, with the same IdempotencyKey, is harmless. A wait that is over or expired is an outcome, not an error.
//
// The error is ErrInvalidToken for a token that gives no right, or matches ErrInvalid for a bad name or source and a
// payload that does not encode, or ErrTooLarge where the signal, or all signals of the execution together, exceed a
// limit; nothing has been changed then.
func (c *Client) Signal(ctx context.Context, token activity.Token, s Signal) (SignalResult, error) {
	if err := c.ready(); err != nil {
		return SignalResult{}, err
	}
	parts, err := engine.OpenToken(token)
	if err != nil {
		return SignalResult{}, err
	}
	payload, err := s.encode()
	if err != nil {
		return SignalResult{}, fmt.Errorf("signal %q: %w", s.Name, err)
	}
	if !engine.Has[engine.WaitStore](c.session.Backend) {
		return SignalResult{}, fmt.Errorf("signal %q: %w", s.Name, engine.ErrNotInContract)
	}
	if int(parts.Partition.Index) >= c.session.Core.Partitioning().Flow {
		return SignalResult{}, engine.ErrInvalidToken
	}
	id := enginecore.SignalID(uuid.NewString())
	reply, err := c.session.Core.Signal(ctx, enginerpc.SignalCall{
		Partition: parts.Partition, ExecutionID: parts.Execution, WaitpointID: parts.Waitpoint,
		WaitpointToken: parts.Signature,
		SignalID:       id, SignalName: s.Name, SourceType: signalSourceType,
		SourceIdentity: cmp.Or(s.Source, "client"), IdempotencyKey: s.IdempotencyKey, Payload: payload,
	})
	switch {
	case errors.Is(err, enginecore.ErrInvalidToken):
		return SignalResult{}, engine.ErrInvalidToken
	case errors.Is(err, enginecore.ErrSignalLimitExceeded), errors.Is(err, enginecore.ErrSignalTooLarge):
		return SignalResult{}, fmt.Errorf("signal %q: %w: %w", s.Name, engine.ErrTooLarge, err)
	case err != nil:
		return SignalResult{}, fmt.Errorf("signal %q: %w", s.Name, err)
	}
	return deliveryOf(reply, id), nil
}

// deliveryOf reads the answer to a signal. A duplicate of itself is the signal's own repeat after a lost reply.
func deliveryOf(reply enginerpc.SignalReply, id enginecore.SignalID) SignalResult {
	d := SignalResult{
		Outcome: SignalOutcome(reply.Outcome), SignalID: string(reply.SignalID),
		First: SignalOutcome(reply.FirstOutcome), Counts: reply.Matched,
	}
	if d.Outcome == SignalDuplicate && reply.SignalID == id && d.First != "" {
		d.Outcome, d.First = d.First, ""
	}
	return d
}

// signalSourceType is what the record says about all signals of clients.
const signalSourceType = "client"

// encode checks the signal and returns its payload.
func (s *Signal) encode() ([]byte, error) {
	if err := activityspec.CheckName(s.Name); err != nil {
		return nil, invalid("name: %w", err)
	}
	if len(s.Source) > maxSignalSource {
		return nil, fmt.Errorf("%w: source has %d bytes, at most %d are allowed", engine.ErrTooLarge, len(s.Source),
			maxSignalSource)
	}
	if err := activityspec.CheckText(s.Source); err != nil {
		return nil, invalid("source %q: %w", s.Source, err)
	}
	if len(s.IdempotencyKey) > maxIdempotencyKey {
		return nil, fmt.Errorf("%w: idempotency key has %d bytes, at most %d are allowed", engine.ErrTooLarge,
			len(s.IdempotencyKey),
			maxIdempotencyKey)
	}
	return encodePayload(s.Payload)
}

// encodePayload returns the JSON form of what a signal carries.
func encodePayload(payload any) ([]byte, error) {
	data, err := activity.JSON{}.Encode(payload)
	if err != nil {
		return nil, invalid("payload of type %T does not encode: %w", payload, err)
	}
	if len(data) > MaxSignalPayload {
		return nil, fmt.Errorf("%w: payload has %d bytes, at most %d are allowed", engine.ErrTooLarge, len(data),
			MaxSignalPayload)
	}
	return data, nil
}
