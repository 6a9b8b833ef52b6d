package service

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/openwaits"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// signalOf returns the signal of a request. Who has logged in answers as that principal; to answer in the name of
// somebody else, as bots do, needs the right to operate. So nobody who may just approve is two persons.
func signalOf(ctx context.Context, b *api.SignalBody) (runtime.Signal, error) {
	signal := runtime.Signal{
		Name: b.Name, Source: b.Source, Category: b.Category, CorrelationID: b.CorrelationID,
		IdempotencyKey: named(ctx, b.IdempotencyKey),
	}
	if len(b.Payload) > 0 {
		signal.Payload = b.Payload
	}
	who := login.From(ctx)
	if who.Kind == login.None || signal.Source == who.Name {
		return signal, nil
	}
	if signal.Source == "" {
		signal.Source = who.Name
		return signal, nil
	}
	if err := need(ctx, api.Operate); err != nil {
		return signal, fmt.Errorf("answer as %.140q, not as %.140q: %w", signal.Source, who.Name, err)
	}
	return signal, nil
}

func deliveryOf(r runtime.SignalResult, err error) (*api.Delivery, error) {
	if err != nil {
		return nil, err
	}
	return &api.Delivery{
		Outcome:  string(r.Outcome),
		SignalID: r.SignalID,
		First:    string(r.First),
		Counts:   r.Counts,
	}, nil
}

// SignalRun implements api.SignalRun.
func (s *Service) SignalRun(ctx context.Context, in *api.SignalRunInput) (*api.Delivery, error) {
	wait := runtime.WaitName{Node: in.Body.Node, Step: in.Body.Step}
	signal, err := signalOf(ctx, &in.Body.SignalBody)
	if err != nil {
		return nil, err
	}
	if in.Body.Wait != "" {
		return s.answer(ctx, in.RunName, answer{wait: wait, id: in.Body.Wait, signal: signal})
	}
	return deliveryOf(s.run(ctx, in.RunName).SignalWait(ctx, wait, signal))
}

// SignalToken implements api.SignalToken.
func (s *Service) SignalToken(ctx context.Context, in *api.SignalTokenInput) (*api.Delivery, error) {
	token, err := runtime.ParseToken(in.Body.Token)
	if err != nil {
		return nil, err
	}
	if login.From(ctx).Restricted() {
		if _, err := s.waitOfToken(ctx, token); err != nil {
			return nil, err
		}
	}
	signal, err := signalOf(ctx, &in.Body.SignalBody)
	if err != nil {
		return nil, err
	}
	return deliveryOf(s.as(ctx).Signal(ctx, token, signal))
}

// GetTokenWait implements api.GetTokenWait.
func (s *Service) GetTokenWait(ctx context.Context, in *api.TokenInput) (*api.Wait, error) {
	token, err := runtime.ParseToken(in.Body.Token)
	if err != nil {
		return nil, err
	}
	w, err := s.waitOfToken(ctx, token)
	if err != nil {
		return nil, err
	}
	out := waitOf(w)
	return &out, nil
}

// waitOfToken returns the wait of a token. For a caller who may not see the flow of the wait, the token is as invalid
// as one that nobody has issued.
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

// ListSignals implements api.ListSignals.
func (s *Service) ListSignals(ctx context.Context, in *api.WaitInput) (*api.Page[api.ReceivedSignal], error) {
	run, w, err := s.wait(ctx, in.WaitName)
	if err != nil {
		return nil, err
	}
	return collect(run.ReceivedSignals(ctx, w), func(r openwaits.Signal) api.ReceivedSignal {
		out := api.ReceivedSignal{
			ID: r.ID, Name: r.Name, Category: r.Category, Source: r.Source, CorrelationID: r.CorrelationID, At: r.At,
			Counts: r.Counts,
		}
		if json.Valid(r.Payload) {
			out.JSON = r.Payload
		} else {
			out.Data = r.Payload
		}
		return out
	})
}
