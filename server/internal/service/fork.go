package service

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flowtest/runcheck"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// ForkRun implements httpapi.ForkRun.
func (s *Service) ForkRun(ctx context.Context, in *httpapi.ForkRunInput) (*api.StartedRun, error) {
	b := &in.Body
	var opts []runtime.StartOption
	options := runtime.ForkOptions{From: b.From, Results: make(map[string]any, len(b.Results))}
	if len(b.Input) > 0 {
		options.Input = b.Input
	}
	for node, result := range b.Results {
		options.Results[node] = result
	}
	if id := named(ctx, b.ID); id != "" {
		opts = append(opts, runtime.WithID(id))
	}
	for key, value := range b.Tags {
		opts = append(opts, runtime.WithTag(key, value))
	}
	fork, err := s.run(ctx, in.RunName).Fork(ctx, options, opts...)
	if err != nil {
		return nil, err
	}
	return &api.StartedRun{Flow: fork.FlowName(), Run: fork.ID()}, nil
}

// ExportRun implements httpapi.ExportRun: it yields the lines of the file, one after the other, so that a run is never
// in memory as a whole.
func (s *Service) ExportRun(ctx context.Context, in *httpapi.RunInput) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for page, err := range s.pagesOf(ctx, s.run(ctx, in.RunName)) {
			var line bytes.Buffer
			if err == nil {
				one := func(yield func(*runtime.RunDescription, error) bool) { yield(page, nil) }
				err = runcheck.Export(&line, one)
			}
			if !yield(bytes.TrimSpace(line.Bytes()), err) || err != nil {
				return
			}
		}
	}
}

// pagesOf yields the parts of the description of a run, with values.
func (s *Service) pagesOf(ctx context.Context, run *runtime.RunRef) iter.Seq2[*runtime.RunDescription, error] {
	return func(yield func(*runtime.RunDescription, error) bool) {
		for cursor := ""; ; {
			d, err := s.describe(ctx, run, runtime.DescribeOptions{
				Values: true, ValueBytes: describe.MaxValueBytes, Cursor: cursor, Nodes: describe.MaxPage,
			})
			if !yield(d, err) || err != nil {
				return
			}
			if cursor = d.Next; cursor == "" {
				return
			}
		}
	}
}

// MoveTimer implements httpapi.MoveTimer.
func (s *Service) MoveTimer(ctx context.Context, in *httpapi.MoveTimerInput) (*httpapi.Empty, error) {
	return done(s.run(ctx, in.RunName).MoveTimer(ctx, in.Node, in.Body.Until))
}

// SkipTimer implements httpapi.SkipTimer.
func (s *Service) SkipTimer(ctx context.Context, in *httpapi.NodeInput) (*httpapi.Empty, error) {
	return done(s.run(ctx, in.RunName).SkipTimer(ctx, in.Node))
}

// ListTurns implements httpapi.ListTurns.
func (s *Service) ListTurns(ctx context.Context, in *httpapi.NodeInput) (*fabrictype.Page[fabrictype.ChildRun], error) {
	turns, err := s.run(ctx, in.RunName).Turns(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	turns = visible(ctx, turns, func(t fabrictype.ChildRun) string { return t.Flow })
	return whole(turns), nil
}

// GetLiveValue implements httpapi.GetLiveValue.
func (s *Service) GetLiveValue(ctx context.Context, in *httpapi.LiveValueInput) (*fabrictype.LiveValue, error) {
	v, err := s.run(ctx, in.RunName).Value(ctx, in.Node, in.Key)
	if err != nil {
		return nil, err
	}
	return &v, nil
}
