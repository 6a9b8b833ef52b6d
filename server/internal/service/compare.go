package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// CompareRuns implements httpapi.CompareRuns.
func (s *Service) CompareRuns(ctx context.Context, in *httpapi.CompareRunsInput) (*fabrictype.RunDiff, error) {
	flow := in.Flow
	if in.OtherFlow != "" {
		flow = in.OtherFlow
	}
	if !login.From(ctx).Sees(flow) {
		return nil, engine.ErrRunNotFound
	}
	return s.run(ctx, in.RunName).Diff(ctx, s.client.Run(flow, in.OtherRun))
}
