package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/openwaits"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// ErrWaitNotFound is returned for a wait that the run does not have.
var ErrWaitNotFound = errors.New("no such wait")

// ListRunWaits implements api.ListRunWaits.
func (s *Service) ListRunWaits(ctx context.Context, in *api.RunInput) (*api.Page[api.Wait], error) {
	waits, err := s.run(ctx, in.RunName).Waitpoints(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(waits, waitOf), nil
}

func signalOf(ctx context.Context, b *api.SignalBody) runtime.Signal {
	signal := runtime.Signal{
		Name: b.Name, Source: b.Source, Category: b.Category, CorrelationID: b.CorrelationID,
		IdempotencyKey: b.IdempotencyKey,
	}
	if len(b.Payload) > 0 {
		signal.Payload = b.Payload
	}
	if who := login.From(ctx); signal.Source == "" && who.Kind != login.None {
		signal.Source = who.Name
	}
	return signal
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
	return deliveryOf(s.run(ctx, in.RunName).SignalWait(ctx, wait, signalOf(ctx, &in.Body.SignalBody)))
}

// SignalToken implements api.SignalToken.
func (s *Service) SignalToken(ctx context.Context, in *api.SignalTokenInput) (*api.Delivery, error) {
	token, err := runtime.ParseToken(in.Body.Token)
	if err != nil {
		return nil, err
	}
	return deliveryOf(s.as(ctx).Signal(ctx, token, signalOf(ctx, &in.Body.SignalBody)))
}

// GetTokenWait implements api.GetTokenWait.
func (s *Service) GetTokenWait(ctx context.Context, in *api.TokenInput) (*api.Wait, error) {
	token, err := runtime.ParseToken(in.Body.Token)
	if err != nil {
		return nil, err
	}
	w, err := s.client.Waitpoint(ctx, token)
	if err != nil {
		return nil, err
	}
	out := waitOf(w)
	return &out, nil
}

// wait finds a wait of a run by its id.
func (s *Service) wait(ctx context.Context, name api.WaitName) (*runtime.RunRef, runtime.Waitpoint, error) {
	run := s.run(ctx, name.RunName)
	waits, err := run.AllWaitpoints(ctx)
	if err != nil {
		return nil, runtime.Waitpoint{}, err
	}
	for _, w := range waits {
		if string(w.ID) == name.Wait {
			return run, w, nil
		}
	}
	return nil, runtime.Waitpoint{}, fmt.Errorf("%w: %q", ErrWaitNotFound, name.Wait)
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

// ResumeWait implements api.ResumeWait.
func (s *Service) ResumeWait(ctx context.Context, in *api.ResumeWaitInput) (*api.Empty, error) {
	run, w, err := s.wait(ctx, in.WaitName)
	if err != nil {
		return nil, err
	}
	return done(run.ResumeWait(ctx, w, in.Body.Payload))
}

// CancelWait implements api.CancelWait.
func (s *Service) CancelWait(ctx context.Context, in *api.CancelWaitInput) (*api.Empty, error) {
	run, w, err := s.wait(ctx, in.WaitName)
	if err != nil {
		return nil, err
	}
	return done(run.CancelWait(ctx, w, in.Body.Reason))
}

// visible returns the elements of flows that the caller may see.
func visible[T any](ctx context.Context, list []T, flow func(T) string) []T {
	who := login.From(ctx)
	if !who.Restricted() {
		return list
	}
	var out []T
	for _, element := range list {
		if who.Sees(flow(element)) {
			out = append(out, element)
		}
	}
	return out
}

func itemText(index int) string { return strconv.Itoa(index) }

func itemCursor(cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	index, err := strconv.Atoi(cursor)
	if err != nil || index < 0 {
		return 0, fmt.Errorf("%w: %.80q", runtime.ErrCursor, cursor)
	}
	return index, nil
}
