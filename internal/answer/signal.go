package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// MaxPayload is the largest encoded payload of a signal.
const MaxPayload = 64 << 10

// Signal is a message to a wait, with the fields of runtime.Signal.
type Signal struct {
	Name           string
	Payload        any
	Source         string
	Category       string
	CorrelationID  string
	IdempotencyKey string
}

// sourceType is the source type in the records of all signals of clients.
const sourceType = "client"

// outgoing checks the signal and returns it as it is sent, with a new id.
func (s *Signal) outgoing() (enginerpc.OutgoingSignal, error) {
	payload, err := s.encode()
	return enginerpc.OutgoingSignal{
		SignalID: enginecore.SignalID(uuid.NewString()), SignalName: s.Name, SourceType: sourceType,
		SourceIdentity: cmp.Or(s.Source, "client"), IdempotencyKey: s.IdempotencyKey, Payload: payload,
		SignalCategory: s.Category, CorrelationID: s.CorrelationID,
	}, err
}

// encode checks the signal and returns its payload.
func (s *Signal) encode() ([]byte, error) {
	if err := activityspec.CheckName(s.Name); err != nil {
		return nil, engine.Invalid("name: %w", err)
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
			return nil, engine.Invalid("%s %q: %w", text.what, text.value, err)
		}
	}
	return EncodePayload(s.Payload)
}

func tooLong(what, text string) error {
	return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", engine.ErrTooLarge, what, len(text),
		activityspec.MaxSignalText)
}

// EncodePayload returns the JSON form of the payload of a signal or of a result of a wait. Its error wraps
// [engine.ErrInvalid] or [engine.ErrTooLarge].
func EncodePayload(payload any) ([]byte, error) {
	data, err := activity.JSON{}.Encode(payload)
	if err != nil {
		return nil, engine.Invalid("payload of type %T does not encode: %w", payload, err)
	}
	if len(data) > MaxPayload {
		return nil, fmt.Errorf("%w: payload has %d bytes, at most %d are allowed", engine.ErrTooLarge, len(data),
			MaxPayload)
	}
	return data, nil
}

// SendToToken delivers a signal to the waitpoint of a token. Its error wraps [engine.ErrInvalidToken],
// [engine.ErrTooLarge] or [engine.ErrInvalid], the latter with a *fabrictype.ValueError for a payload that does not
// satisfy the schema of the wait.
func (c *Checker) SendToToken(
	ctx context.Context, s *engine.Session, token activity.Token, signal Signal,
) (fabrictype.SignalResult, error) {
	parts, err := engine.OpenToken(token)
	if err != nil {
		return fabrictype.SignalResult{}, err
	}
	outgoing, err := signal.outgoing()
	if err != nil {
		return fabrictype.SignalResult{}, fmt.Errorf("signal %q: %w", signal.Name, err)
	}
	if int(parts.Partition.Index) >= s.Core.Partitioning().Flow {
		return fabrictype.SignalResult{}, engine.ErrInvalidToken
	}
	reply, err := c.Signal(ctx, s.Backend, enginerpc.SignalCall{
		Partition: parts.Partition, ExecutionID: parts.Execution, WaitpointID: parts.Waitpoint,
		WaitpointToken: parts.Signature, OutgoingSignal: outgoing,
	})
	switch {
	case errors.Is(err, enginecore.ErrInvalidToken):
		return fabrictype.SignalResult{}, engine.ErrInvalidToken
	case err != nil:
		return fabrictype.SignalResult{}, fmt.Errorf("signal %q: %w", signal.Name, signalFault(err))
	}
	result, err := resultOf(reply, &outgoing)
	if err != nil {
		return fabrictype.SignalResult{}, fmt.Errorf("signal %q: %w", signal.Name, err)
	}
	return result, nil
}

// SendToNode delivers a signal to a wait of a run by the names of its node and of its step, which is empty for a
// waitpoint node. Its error wraps [engine.ErrUnknownNode], [engine.ErrRunNotFound], or one of SendToToken.
func (c *Checker) SendToNode(
	ctx context.Context, s *engine.Session, store engine.Library, r engine.Run, node, step string, signal Signal,
) (fabrictype.SignalResult, error) {
	outgoing, err := signal.outgoing()
	if err != nil {
		return fabrictype.SignalResult{}, err
	}
	call := enginerpc.SignalNodeCall{
		Partition: r.Partition, FlowID: r.FlowID, Node: node, Step: step, OutgoingSignal: outgoing,
	}
	var reply enginerpc.SignalNodeReply
	err = s.Secrets.With(ctx, r.Partition, func() error {
		reply, err = c.SignalNode(ctx, store, call)
		return err
	})
	if err != nil {
		return fabrictype.SignalResult{}, engine.NodeFault(signalFault(err))
	}
	return resultOf(enginerpc.SignalReply{
		Outcome: reply.Outcome, SignalID: reply.SignalID, FirstOutcome: reply.FirstOutcome, Matched: reply.Matched,
		Uncounted: reply.Uncounted, Counting: reply.Counting,
	}, &outgoing)
}

// StartOrSignal submits a plan with a signal to a wait of its run: if the run exists, the engine delivers the signal to
// that. Its error is one of submit or of SendToNode.
func (c *Checker) StartOrSignal(
	ctx context.Context, plan *submit.RunPlan, node, step string, signal Signal,
	submit func(context.Context, *submit.RunPlan) (existed bool, err error),
) (existed bool, result fabrictype.SignalResult, err error) {
	outgoing, err := signal.outgoing()
	if err != nil {
		return false, fabrictype.SignalResult{}, err
	}
	schema, err := plan.WaitSchema(node, step)
	if err != nil {
		return false, fabrictype.SignalResult{}, err
	}
	// A run that exists may be of another graph, whose wait has another schema.
	err = c.SendSignal(&outgoing, schema, func() (string, error) {
		plan.Signal = submitted(node, step, &outgoing)
		if existed, err = submit(ctx, plan); err != nil {
			return "", err
		}
		if plan.Sent.Code != string(enginerpc.StatusOK) {
			return "", engine.NodeFault(signalFault(&enginecore.Error{
				Function: enginerpc.FunctionName(enginerpc.SubmitCall{}), Code: enginecore.Code(plan.Sent.Code),
				Details: []string{plan.Sent.Detail},
			}))
		}
		return plan.Sent.AnswerSchema, nil
	})
	if err != nil {
		return false, fabrictype.SignalResult{}, err
	}
	sent := plan.Sent
	result, err = resultOf(enginerpc.SignalReply{
		Outcome: sent.Outcome, SignalID: enginecore.SignalID(sent.SignalID), FirstOutcome: sent.FirstOutcome,
		Matched: sent.Matched, Uncounted: sent.Uncounted, Counting: sent.Counting,
	}, &outgoing)
	return existed, result, err
}

// submitted returns a signal as the submission of a run carries it.
func submitted(node, step string, s *enginerpc.OutgoingSignal) *enginerpc.SubmitSignal {
	return &enginerpc.SubmitSignal{
		Node: node, Step: step, SignalID: s.SignalID, SignalName: s.SignalName, SourceType: s.SourceType,
		SourceIdentity: s.SourceIdentity, IdempotencyKey: s.IdempotencyKey, Payload: s.Payload,
		SignalCategory: s.SignalCategory, CorrelationID: s.CorrelationID, Checked: s.Checked,
		Comment: s.Comment,
	}
}

// signalFault converts an error of the engine about a signal into one of package engine.
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
		return engine.Invalid("%w", err)
	}
	return err
}

// resultOf reads the answer to a signal. A duplicate of itself is the signal's own repeat after a lost reply. The error
// wraps [engine.ErrSignalDoesNotCount] for a signal that an open wait does not count.
func resultOf(reply enginerpc.SignalReply, s *enginerpc.OutgoingSignal) (fabrictype.SignalResult, error) {
	if err := Uncounted(reply.Uncounted, reply.Counting, s); err != nil {
		return fabrictype.SignalResult{}, err
	}
	d := fabrictype.SignalResult{
		Outcome: fabrictype.SignalOutcome(reply.Outcome), SignalID: string(reply.SignalID),
		First: fabrictype.SignalOutcome(reply.FirstOutcome), Counts: reply.Matched,
	}
	if d.Outcome == fabrictype.SignalDuplicate && reply.SignalID == s.SignalID && d.First != "" {
		d.Outcome, d.First = d.First, ""
	}
	return d, nil
}

// Uncounted returns the error of a signal that does not count, by the engine's reply: why, and the names that count. It
// is nil without a reason.
func Uncounted(reason string, counting []string, s *enginerpc.OutgoingSignal) error {
	names := "any name counts"
	if len(counting) > 0 {
		names = "the names that count: " + strings.Join(counting, ", ")
	}
	switch reason {
	case "":
		return nil
	case "name":
		reason = "the wait takes no signal of that name"
	case "source":
		reason = fmt.Sprintf("%q has answered before, and the wait needs different people", s.SourceIdentity)
	default:
		reason = "the wait has enough signals of that name"
	}
	return fmt.Errorf("%w: %s; %s", engine.ErrSignalDoesNotCount, reason, names)
}

// Audited sends a signal of an actor to a wait, with an entry in the audit log.
func Audited(
	ctx context.Context, s *engine.Session, actor, flow, run, node string, signal *Signal,
	send func(context.Context) (fabrictype.SignalResult, error),
) (result fabrictype.SignalResult, err error) {
	entry := fabrictype.AuditEntry{
		Actor: actor, Action: auditlink.AnswerWait, Name: flow + "/" + run + "/" + node,
		Detail: recordtext.Line(signal.Name, activityspec.MaxSignalText) + ", by a client of the engine",
	}
	if source := recordtext.Line(signal.Source, activityspec.MaxSignalText); source != "" && source != actor {
		entry.Detail += "; in the name of " + source
	}
	sent := false
	refused := s.Audited(ctx, entry, func(ctx context.Context) error {
		sent = true
		result, err = send(ctx)
		return auditlink.Refusal(string(result.Outcome), err, engine.ErrInvalid)
	})
	if !sent {
		return result, refused
	}
	return result, err
}
