package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// GetServer implements httpapi.GetServer.
func (s *Service) GetServer(ctx context.Context, _ *httpapi.Empty) (*api.ServerInfo, error) {
	who := login.From(ctx)
	out := s.info
	out.Principal = api.Principal{Name: who.Name, Login: string(who.Kind), Rights: who.Rights, Flows: who.Flows}
	return &out, nil
}
