package service

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// RotateSecrets implements httpapi.RotateSecrets.
func (s *Service) RotateSecrets(ctx context.Context, in *httpapi.RotateSecretsInput) (*api.RotatedSecrets, error) {
	r, err := s.engine.RotateSecrets(ctx, graceOf(in.Body.Grace), runtime.WithActor(login.From(ctx).Name))
	if err != nil {
		return nil, err
	}
	return &api.RotatedSecrets{Rotated: r.Rotated + r.Unchanged, Failed: len(r.Failed)}, nil
}

// graceOf returns the grace of a rotation, a day by default.
func graceOf(d fabrictype.Duration) time.Duration {
	if d.Duration == 0 {
		return 24 * time.Hour
	}
	return d.Duration
}
