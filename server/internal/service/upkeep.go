package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// Inspect implements httpapi.Inspect.
func (s *Service) Inspect(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Inspection, error) {
	report, err := s.engine.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	if report.Findings == nil {
		report.Findings = []fabrictype.Finding{}
	}
	return &report, nil
}

// ListKeeperTasks implements httpapi.ListKeeperTasks.
func (s *Service) ListKeeperTasks(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[api.KeeperTask], error) {
	s.past.Refresh(ctx)
	lags, now := s.past.Lags(), s.now()
	return pageOf(s.admin.KeeperTasks(), func(t admin.KeeperTask) api.KeeperTask {
		return api.KeeperTask{
			Name: t.Name, Summary: t.Summary, Every: fabrictype.Duration{Duration: t.Every},
			Lag: lagOf(lags[t.Name], now),
		}
	}), nil
}

// RunKeeperTask implements httpapi.RunKeeperTask.
func (s *Service) RunKeeperTask(ctx context.Context, in *httpapi.KeeperTaskInput) (*api.KeeperTaskReport, error) {
	r, err := s.admin.As(login.From(ctx).Name).RunKeeperTask(ctx, in.Task, runtime.KeeperConfig{})
	if err != nil {
		return nil, err
	}
	return &api.KeeperTaskReport{
		Task: r.Task, Partitions: r.Partitions, Steps: r.Steps, Done: r.Done, Lag: fabrictype.Duration{Duration: r.Lag},
		Remaining: r.Remaining,
		Repaired:  r.Repaired, Took: fabrictype.Duration{Duration: r.Took},
	}, nil
}

// GetServer implements httpapi.GetServer.
func (s *Service) GetServer(ctx context.Context, _ *httpapi.Empty) (*api.ServerInfo, error) {
	who := login.From(ctx)
	out := s.info
	out.Principal = api.Principal{
		Name: who.Name, Login: string(who.Kind), Rights: who.Rights, Groups: who.Groups, Flows: who.Flows,
	}
	return &out, nil
}

// Ask asks the engine for its time.
func (s *Service) Ask(ctx context.Context) error {
	_, err := engine.ConnOf(s.engine.Internal()).Now(ctx)
	return err
}
