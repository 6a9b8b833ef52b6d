package service

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// maxLasts is the longest time of a registration.
const maxLasts = 24 * time.Hour

// RegisterPushWorker implements httpapi.RegisterPushWorker.
func (s *Service) RegisterPushWorker(
	ctx context.Context, in *httpapi.RegisterPushWorkerInput,
) (*api.PushWorker, error) {
	if d := in.Body.Lasts.Duration; d != 0 && (d < time.Second || d > maxLasts) {
		return nil, faultAt("/lasts", "must be 1s to %s, got: %s", maxLasts, d)
	}
	if d := in.Body.Lease.Duration; d != 0 && (d < time.Second || d > time.Hour) {
		return nil, faultAt("/lease", "must be 1s to 1h, got: %s", d)
	}
	w, err := s.pushes.Register(ctx, login.From(ctx), in)
	if err != nil {
		return nil, err
	}
	return &w, nil
}

// ListPushWorkers implements httpapi.ListPushWorkers.
func (s *Service) ListPushWorkers(context.Context, *httpapi.Empty) (*fabrictype.Page[api.PushWorker], error) {
	return &fabrictype.Page[api.PushWorker]{Items: s.pushes.List()}, nil
}

// RemovePushWorker implements httpapi.RemovePushWorker.
func (s *Service) RemovePushWorker(ctx context.Context, in *httpapi.RemovePushWorkerInput) (*httpapi.Empty, error) {
	owner := login.From(ctx)
	if in.Principal != "" || in.Login != "" {
		owner = login.Principal{Name: in.Principal, Kind: login.Kind(in.Login)}
	}
	remove := func() error { return s.pushes.Remove(owner, in.Worker) }
	if owner.ID() == login.From(ctx).ID() {
		return done(remove())
	}
	if err := login.Need(ctx, api.Administer); err != nil {
		return nil, err
	}
	detail := fmt.Sprintf("push worker %.128s, by %.32s", in.Worker, owner.Kind)
	return done(s.audited(ctx, auditlink.RemovePushWorker, owner.Name, detail, remove))
}
