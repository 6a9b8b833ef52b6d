package service

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/history"
)

// GetLaneHistory implements httpapi.GetLaneHistory.
func (s *Service) GetLaneHistory(ctx context.Context, in *httpapi.LaneInput) (*httpapi.LaneHistory, error) {
	s.past.Refresh(ctx)
	samples := s.past.Lane(in.Lane)
	out := &httpapi.LaneHistory{Samples: make([]api.LaneSample, len(samples))}
	for i, l := range samples {
		out.Samples[i] = api.LaneSample(l)
	}
	return out, nil
}

// GetBudgetHistory implements httpapi.GetBudgetHistory.
func (s *Service) GetBudgetHistory(ctx context.Context, in *httpapi.BudgetInput) (*httpapi.BudgetHistory, error) {
	if _, err := s.client.Budget(budgetRef(in)).Describe(ctx); err != nil {
		return nil, err
	}
	s.past.Refresh(ctx)
	out := &httpapi.BudgetHistory{Samples: []api.BudgetSample{}}
	if in.Run != "" {
		return out, nil
	}
	for _, b := range s.past.Budget(history.Budget{Name: in.Budget, Key: in.Key, Flow: in.Flow}) {
		out.Samples = append(out.Samples, api.BudgetSample{At: b.At, Spent: b.Amounts})
	}
	return out, nil
}

// lagOf returns the lag by its samples: the last one, and the worst of each minute. It is nil without samples.
func lagOf(samples []history.Lag, now time.Time) *api.KeeperLag {
	if len(samples) == 0 {
		return nil
	}
	minutesAgo := func(l history.Lag) int { return max(0, int(now.Sub(l.At)/time.Minute)) }
	out := &api.KeeperLag{
		Behind:  fabrictype.Duration{Duration: samples[len(samples)-1].Behind},
		Minutes: make([]fabrictype.Duration, minutesAgo(samples[0])+1),
	}
	for _, l := range samples {
		minute := &out.Minutes[len(out.Minutes)-1-minutesAgo(l)]
		minute.Duration = max(minute.Duration, l.Behind)
	}
	return out
}
