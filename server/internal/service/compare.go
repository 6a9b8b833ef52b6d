package service

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
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
	other := in.OtherRun
	if other == "" {
		var err error
		if other, err = s.lastSuccess(ctx, flow, in.RunName); err != nil {
			return nil, err
		}
	}
	return s.run(ctx, in.RunName).Diff(ctx, s.client.Run(flow, other))
}

// lastSuccess returns the latest run of a flow that succeeded, other than the given one.
func (s *Service) lastSuccess(ctx context.Context, flow string, than httpapi.RunName) (string, error) {
	query := runtime.RunQuery{Flow: flow, States: []fabrictype.RunState{fabrictype.RunSucceeded}}
	page, err := s.client.ListRuns(ctx, query, "", 2)
	if err != nil {
		return "", err
	}
	for i := range page.Items {
		if page.Items[i].Run != than.Run || flow != than.Flow {
			return page.Items[i].Run, nil
		}
	}
	return "", fmt.Errorf("%w: no other run of flow %q has succeeded", engine.ErrRunNotFound, flow)
}
