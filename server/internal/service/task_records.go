package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var logLevels = map[string]slog.Level{
	"": slog.LevelInfo, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
	"error": slog.LevelError,
}

// AppendLogs implements httpapi.AppendLogs. Lines are stored with the attempt; the log of the server does not get them.
func (s *Service) AppendLogs(ctx context.Context, in *httpapi.AppendLogsInput) (*httpapi.Empty, error) {
	t, err := s.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	lines := make([]slog.Record, len(in.Body.Lines))
	for i, line := range in.Body.Lines {
		at := line.At
		if at.IsZero() {
			at = s.now()
		}
		lines[i] = slog.NewRecord(at, logLevels[line.Level], line.Message, 0)
		if len(line.Attrs) == 0 || string(line.Attrs) == "null" {
			continue
		}
		var attrs map[string]json.RawMessage
		if err := json.Unmarshal(line.Attrs, &attrs); err != nil {
			return nil, faultAt(fmt.Sprintf("/lines/%d/attrs", i), "must be a JSON object")
		}
		for _, key := range slices.Sorted(maps.Keys(attrs)) {
			lines[i].AddAttrs(slog.Any(key, attrs[key]))
		}
	}
	for _, line := range lines {
		if err := t.Log(ctx, line); err != nil {
			return nil, err
		}
	}
	return &httpapi.Empty{}, nil
}

// ReportUsage implements httpapi.ReportUsage.
func (s *Service) ReportUsage(ctx context.Context, in *httpapi.ReportUsageInput) (*httpapi.ReportedUsage, error) {
	t, err := s.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	err = t.ReportUsage(ctx, in.Body.Key, in.Body.Usage)
	if exceeded, ok := errors.AsType[*activity.BudgetError](err); ok {
		return &httpapi.ReportedUsage{Exceeded: &api.ExceededBudget{
			Budget: exceeded.Budget, Key: exceeded.Key, Dimension: exceeded.Dimension, Asked: exceeded.Asked,
			Spent: exceeded.Spent, Reserved: exceeded.Reserved, Hard: exceeded.Hard,
		}}, nil
	}
	if errors.Is(err, activityspec.ErrUnknownDimension) || errors.Is(err, activityspec.ErrUsage) {
		return nil, fmt.Errorf("%w: %w", runtime.ErrInvalid, err)
	}
	if err != nil {
		return nil, err
	}
	return &httpapi.ReportedUsage{}, nil
}

// GetStep implements httpapi.GetStep.
func (s *Service) GetStep(ctx context.Context, in *httpapi.StepInput) (*api.Step, error) {
	t, err := s.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	result, recorded, err := t.RecordedStep(in.Step)
	if err != nil {
		return nil, err
	}
	return &api.Step{Recorded: recorded, Result: result}, nil
}

// RecordStep implements httpapi.RecordStep.
func (s *Service) RecordStep(ctx context.Context, in *httpapi.RecordStepInput) (*api.Step, error) {
	t, err := s.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	_, recorded, err := t.RecordedStep(in.Step)
	if err != nil {
		return nil, err
	}
	first, err := t.RecordStep(ctx, in.Step, in.Body.Result)
	if err != nil {
		return nil, err
	}
	return &api.Step{Recorded: recorded, Result: first}, nil
}
