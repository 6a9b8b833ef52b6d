package admin

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Signal is what DeliverSignal hands to a waitpoint.
type Signal struct {
	// Execution, Waitpoint and Token say where it goes; Waitpoints has them.
	Execution enginecore.ExecutionID
	Waitpoint enginecore.WaitpointID
	Token     string
	// ID is the signal's id; without one, a random one is made.
	ID enginecore.SignalID
	// Name is compared with the condition of the waitpoint. It must be set.
	Name string
	// Category, SourceType and SourceIdentity say what kind of signal it is and whose, for the record. They default to
	// "operator", "admin" and "admin".
	Category, SourceType, SourceIdentity string
	// Payload is what the waiting execution gets.
	Payload []byte
	// CorrelationID is for the record.
	CorrelationID string
	// IdempotencyKey makes signals with the same key to one waitpoint one signal for IdempotencyTTL, 24 hours by
	// default.
	IdempotencyKey string
	IdempotencyTTL time.Duration
	// ResumeDelay is how long the execution stays aside when the signal decides its wait.
	ResumeDelay time.Duration
}

// Delivery is what became of a signal.
type Delivery struct {
	// ID is that of the signal; of a duplicate, that of the first one.
	ID enginecore.SignalID
	// Duplicate tells that a signal with the same idempotency key was there first, and nothing has changed.
	Duplicate bool
	// Effect says what the signal has done; empty for a duplicate.
	Effect enginecore.SignalEffect
}

// Limits of signals that other FlowFabric servers use, too.
const (
	defaultMaxSignals   = 1000
	defaultSignalMaxlen = 10000
)

// DeliverSignal hands a signal to an open waitpoint, in one atomic step; an execution whose wait it decides goes on. To
// a waitpoint that was made ahead of its wait the signal is kept until the wait begins, by a second call when the first
// one says so. Client.Signal of package runtime is the way for those of a run.
//
// The error wraps enginecore.ErrInvalidToken, enginecore.ErrTokenExpired, enginecore.ErrWaitpointNotFound,
// enginecore.ErrWaitpointClosed, enginecore.ErrTargetNotSignalable, enginecore.ErrSignalLimitExceeded,
// enginecore.ErrSignalTooLarge and, when the reply was lost, enginecore.ErrOutcomeUnknown: with an idempotency key, it
// may be sent again then.
func (c *Client) DeliverSignal(ctx context.Context, s Signal) (Delivery, error) {
	if s.Name == "" {
		return Delivery{}, fault("name", "must not be empty")
	}
	for _, x := range []struct{ argument, text string }{
		{"name", s.Name}, {"category", s.Category}, {"source type", s.SourceType},
		{"source identity", s.SourceIdentity},
	} {
		if err := activityspec.CheckText(x.text); err != nil {
			return Delivery{}, fault(x.argument, "%.80q: %v", x.text, err)
		}
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
	reply, err := c.core.DeliverSignal(ctx, enginerpc.DeliverSignalCall{LaneID: lane, Signal: signal})
	if !errors.Is(err, enginecore.ErrWaitpointPendingUseBufferScript) {
		return Delivery{reply.SignalID, reply.Status == enginerpc.StatusDuplicate,
			enginecore.SignalEffect(reply.Effect)}, err
	}
	kept, err := c.core.BufferSignalForPendingWaitpoint(ctx,
		enginerpc.BufferSignalForPendingWaitpointCall{Signal: signal})
	return Delivery{kept.SignalID, kept.Status == enginerpc.StatusDuplicate, enginecore.SignalEffect(kept.Effect)}, err
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
		DedupTTL: ttl, ResumeDelay: s.ResumeDelay, SignalMaxlen: defaultSignalMaxlen,
		MaxSignalsPerExecution: defaultMaxSignals, WaitpointToken: s.Token,
	}
}
