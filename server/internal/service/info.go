package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// GetServer implements api.GetServer.
func (s *Service) GetServer(ctx context.Context, _ *api.Empty) (*api.ServerInfo, error) {
	who := login.From(ctx)
	out := s.info
	out.Principal = api.Principal{Name: who.Name, Login: string(who.Kind), Rights: who.Rights, Flows: who.Flows}
	return &out, nil
}
