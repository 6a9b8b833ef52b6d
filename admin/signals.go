package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractsignal"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
)

// Signal is a signal for DeliverSignal.
type Signal struct {
	// Execution, Waitpoint and Token identify the waitpoint; Client.Waitpoints returns them.
	Execution enginecore.ExecutionID
	Waitpoint enginecore.WaitpointID
	Token     string
	// ID is the id of the signal. Defaults to a random one.
	ID enginecore.SignalID
	// Name is matched against the condition of the waitpoint. It must be set.
	Name string
	// Category, SourceType and SourceIdentity are recorded with the signal. They default to "operator", "admin" and
	// "admin".
	Category, SourceType, SourceIdentity string
	// Payload is passed to the waiting execution.
	Payload []byte
	// CorrelationID is recorded with the signal.
	CorrelationID string
	// IdempotencyKey makes signals with the same key to the same waitpoint one signal for IdempotencyTTL, which
	// defaults to 24 hours.
	IdempotencyKey string
	IdempotencyTTL time.Duration
	// ResumeDelay delays the execution when the signal ends its wait.
	ResumeDelay time.Duration
}

// Delivery is the engine's reply to a signal.
type Delivery struct {
	// ID is the id of the signal; for a duplicate, the id of the first delivery.
	ID enginecore.SignalID
	// Duplicate reports whether a signal with the same idempotency key was delivered before, so that nothing was
	// changed.
	Duplicate bool
	// Effect is the effect of the signal, empty for a duplicate: no_op, when nothing waits for this signal;
	// appended_to_waitpoint, when the wait continues; buffered_for_pending_waitpoint, when the signal is kept until
	// something waits; or resume_condition_satisfied, when the wait is over.
	Effect string
}

// DeliverSignal delivers a signal to an open waitpoint, in one atomic step. An execution whose wait the signal ends
// continues. For a pending waitpoint, whose wait has not begun, the signal is kept, by a second call when the first
// reply requires it. An execution takes 10,000 signals, of which the stream of the waitpoint keeps the last 1,000. For
// waitpoints of runs, use runtime.Client.Signal; their payload must be JSON, and satisfy the schema of the wait, here,
// too. Name, category, source and keys have at most 256 bytes without control characters; otherwise the error matches
// ErrInvalid, for a payload with a *fabrictype.ValueError.
//
// The error wraps enginecore.ErrInvalidToken, enginecore.ErrTokenExpired, enginecore.ErrWaitpointNotFound,
// enginecore.ErrWaitpointClosed, enginecore.ErrTargetNotSignalable, enginecore.ErrSignalLimitExceeded,
// enginecore.ErrSignalTooLarge or, when the reply was lost, enginecore.ErrOutcomeUnknown; a signal with an idempotency
// key can be sent again then.
func (c *Client) DeliverSignal(ctx context.Context, s Signal) (Delivery, error) {
	if s.Name == "" {
		return Delivery{}, fault("name", "must not be empty")
	}
	r, err := c.coreOf(ctx, s.Execution, "lane_id")
	if err != nil {
		return Delivery{}, of(err, "signal", "execution", string(s.Execution))
	}
	delivery, err := c.deliver(ctx, s, r.Lane())
	return delivery, of(err, "signal", "execution", string(s.Execution))
}

func (c *Client) deliver(ctx context.Context, s Signal, lane enginecore.LaneID) (Delivery, error) {
	now, err := c.now(ctx)
	if err != nil {
		return Delivery{}, err
	}
	signal := s.wire(now)
	wait, err := contractsignal.Find(ctx, c.core, &signal)
	if err != nil {
		return Delivery{}, err
	}
	if err := wait.Apply(&signal); err != nil {
		return Delivery{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	reply, err := c.core.DeliverSignal(ctx, enginerpc.DeliverSignalCall{LaneID: lane, Signal: signal})
	if !errors.Is(err, errorcode.WaitpointPendingUseBufferScript) {
		return Delivery{reply.SignalID, reply.Status == enginerpc.StatusDuplicate,
			reply.Effect}, err
	}
	kept, err := c.core.BufferSignalForPendingWaitpoint(ctx,
		enginerpc.BufferSignalForPendingWaitpointCall{Signal: signal})
	return Delivery{kept.SignalID, kept.Status == enginerpc.StatusDuplicate, kept.Effect}, err
}

func (s Signal) wire(now time.Time) enginerpc.Signal {
	or := func(text, fallback string) string {
		if text == "" {
			return fallback
		}
		return text
	}
	ttl := s.IdempotencyTTL
	if ttl <= 0 {
		ttl = defaultIdempotencyTTL
	}
	return enginerpc.Signal{
		SignalID: enginecore.SignalID(or(string(s.ID), uuid.NewString())), ExecutionID: s.Execution,
		WaitpointID: s.Waitpoint,
		SignalName:  s.Name, SignalCategory: or(s.Category, "operator"), SourceType: or(s.SourceType, "admin"),
		SourceIdentity: or(s.SourceIdentity, "admin"), Payload: s.Payload, PayloadEncoding: "json",
		IdempotencyKey: s.IdempotencyKey, CorrelationID: s.CorrelationID, TargetScope: "waitpoint", CreatedAt: now,
		DedupTTL: ttl, ResumeDelay: s.ResumeDelay, SignalMaxlen: contractsignal.KeptSignals,
		MaxSignalsPerExecution: contractsignal.MaxSignals, WaitpointToken: s.Token,
	}
}
