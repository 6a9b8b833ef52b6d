package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/answers"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// signalOf returns the signal of a request, with the source that answers.Source returns.
func signalOf(ctx context.Context, b *api.SignalBody) (signal runtime.Signal, err error) {
	signal = runtime.Signal{
		Name: b.Name, Category: b.Category, CorrelationID: b.CorrelationID,
		IdempotencyKey: named(ctx, b.IdempotencyKey),
	}
	if len(b.Payload) > 0 {
		signal.Payload = b.Payload
	}
	signal.Source, err = answers.Source(ctx, b.Source)
	return signal, err
}

func replied(r fabrictype.SignalResult, err error) (*fabrictype.SignalResult, error) {
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// SignalRun implements httpapi.SignalRun.
func (s *Service) SignalRun(ctx context.Context, in *httpapi.SignalRunInput) (*fabrictype.SignalResult, error) {
	wait := runtime.WaitName{Node: in.Body.Node, Step: in.Body.Step}
	signal, err := signalOf(ctx, &in.Body.SignalBody)
	if err != nil {
		return nil, err
	}
	if in.Body.Wait != "" {
		return s.answer(ctx, in.RunName, answer{wait: wait, id: in.Body.Wait, signal: signal})
	}
	run := s.client.Run(in.Flow, in.Run)
	send := func() (fabrictype.SignalResult, error) { return run.SignalWait(ctx, wait, signal) }
	return replied(answered(in.Flow, in.Run, in.Body.Node, &signal).Send(ctx, s.client.Internal(), send))
}

// answered describes an answer to a wait of a run for the audit log.
func answered(flow, run, node string, signal *runtime.Signal) answers.Answer {
	return answers.Answer{Wait: flow + "/" + run + "/" + node, Signal: signal.Name, Source: signal.Source}
}

// SignalToken implements httpapi.SignalToken.
func (s *Service) SignalToken(ctx context.Context, in *httpapi.SignalTokenInput) (*fabrictype.SignalResult, error) {
	token, err := runtime.ParseToken(in.Body.Token)
	if err != nil {
		return nil, err
	}
	signal, err := signalOf(ctx, &in.Body.SignalBody)
	if err != nil {
		return nil, err
	}
	send := func() (fabrictype.SignalResult, error) { return s.client.Signal(ctx, token, signal) }
	w, err := s.waitOfToken(ctx, token)
	switch {
	case errors.Is(err, runtime.ErrNotInContract) && !login.From(ctx).Restricted():
		return replied(send()) // the contract has neither texts of waits nor an audit log
	case err != nil:
		return nil, err
	case w.State == fabrictype.WaitClosed:
		return replied(send())
	}
	return replied(answered(w.Flow, w.Run, w.Node, &signal).Send(ctx, s.client.Internal(), send))
}

// GetTokenWait implements httpapi.GetTokenWait.
func (s *Service) GetTokenWait(ctx context.Context, in *httpapi.TokenInput) (*fabrictype.Wait, error) {
	token, err := runtime.ParseToken(in.Body.Token)
	if err != nil {
		return nil, err
	}
	w, err := s.waitOfToken(ctx, token)
	if err != nil {
		return nil, err
	}
	return &w.Wait, nil
}

// waitOfToken returns the wait of a token. For a caller who may not see the flow of the wait, the token is as invalid
// as a forged one.
func (s *Service) waitOfToken(ctx context.Context, token activity.Token) (runtime.Waitpoint, error) {
	w, err := s.client.Waitpoint(ctx, token)
	if err != nil {
		return runtime.Waitpoint{}, err
	}
	if !login.From(ctx).Sees(w.Flow) {
		return runtime.Waitpoint{}, runtime.ErrInvalidToken
	}
	return w, nil
}

// ListSignals implements httpapi.ListSignals.
func (s *Service) ListSignals(ctx context.Context, in *httpapi.WaitInput) (
	*fabrictype.Page[fabrictype.ReceivedSignal], error,
) {
	run, w, err := s.wait(ctx, in.WaitName)
	if err != nil {
		return nil, err
	}
	return gather(run.ReceivedSignals(ctx, w))
}

// isJSON reports whether a stored value can be part of a reply as it is. Readers would change invalid UTF-8.
func isJSON(value []byte) bool { return json.Valid(value) && utf8.Valid(value) }

// answer is a signal to the wait with an id.
type answer struct {
	wait   runtime.WaitName
	id     string
	signal runtime.Signal
}

// answer delivers a signal to a wait that is open, and records it in the audit log before.
func (s *Service) answer(ctx context.Context, name httpapi.RunName, a answer) (*fabrictype.SignalResult, error) {
	_, w, err := s.wait(ctx, httpapi.WaitName{RunName: name, Wait: a.id})
	switch {
	case err != nil:
		return nil, err
	case w.Flow != name.Flow || w.Run != name.Run || w.Node != a.wait.Node || w.Step != a.wait.Step:
		return nil, fmt.Errorf("%w: %q is not of %s", ErrWaitNotFound, a.id, a.wait)
	case w.State == fabrictype.WaitClosed:
		return &fabrictype.SignalResult{Outcome: fabrictype.SignalClosed}, nil
	}
	run := s.client.Run(name.Flow, name.Run)
	return replied(answered(w.Flow, w.Run, w.Node, &a.signal).Send(ctx, s.client.Internal(),
		func() (fabrictype.SignalResult, error) { return run.SignalWait(ctx, a.wait, a.signal) }))
}
