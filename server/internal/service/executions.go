package service

import (
	"context"
	"strings"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// ListExecutions implements httpapi.ListExecutions.
func (s *Service) ListExecutions(
	ctx context.Context, in *api.ListExecutionsInput,
) (*fabrictype.Page[api.Execution], error) {
	q := admin.ExecutionQuery{
		Lane: enginecore.LaneID(in.Lane), Flow: enginecore.FlowID(in.FlowID), Index: in.Index,
		WithTags: true,
	}
	for _, state := range in.States {
		q.States = append(q.States, fabrictype.NodeState(state))
	}
	for _, tag := range in.Tags {
		key, value, found := strings.Cut(tag, "=")
		if !found || key == "" {
			return nil, faultAt("", "tag must be key=value, got: %q", tag)
		}
		if q.Tags == nil {
			q.Tags = map[string]string{}
		}
		q.Tags[key] = value
	}
	page, err := s.admin.ListExecutions(ctx, q, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	out := pageOf(page.Items, executionOf)
	out.Next = page.Next
	return out, nil
}

// GetExecution implements httpapi.GetExecution.
func (s *Service) GetExecution(ctx context.Context, in *httpapi.ExecutionInput) (*api.Execution, error) {
	id, err := keyspace.ParseExecutionID(in.Execution)
	if err != nil {
		return nil, faultAt("", "execution: %v", err)
	}
	e, err := s.admin.Execution(ctx, id)
	if err != nil {
		return nil, err
	}
	out := executionOf(e)
	return &out, nil
}

func executionOf(e admin.Execution) api.Execution {
	return api.Execution{
		ID: string(e.ID), FlowID: string(e.Flow), Flow: e.FlowName, Run: e.Run, Node: e.Node, Kind: e.Kind,
		Lane: string(e.Lane), Namespace: e.Namespace,
		Priority: e.Priority, State: string(e.State), Phase: e.Phase, Ownership: e.Ownership,
		Eligibility: e.Eligibility, Detail: e.BlockingDetail, Attempts: e.Attempts, Retries: e.Retries,
		Reclaims: e.Reclaims, Replays: e.Replays, Worker: string(e.Worker), LeaseExpiresAt: e.LeaseExpiresAt,
		Failure: e.FailureReason, CancelReason: e.CancellationReason, CreatedAt: e.CreatedAt, StartedAt: e.StartedAt,
		CompletedAt: e.CompletedAt, Tags: e.Tags,
	}
}
