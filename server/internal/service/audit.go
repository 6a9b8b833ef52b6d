package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime/auditlog"
)

// ListAudit implements api.ListAudit.
func (s *Service) ListAudit(ctx context.Context, in *api.ListAuditInput) (*api.Page[api.AuditEntry], error) {
	out := &api.Page[api.AuditEntry]{Items: []api.AuditEntry{}}
	query := auditlog.Query{
		Actor: in.Actor, Action: auditlog.Action(in.Action), Name: in.Name, From: in.From, Before: in.Before,
		After: in.Cursor,
	}
	for e, err := range s.client.Audit(ctx, query) {
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, api.AuditEntry{
			ID: e.ID, At: e.At, Actor: e.Actor, Action: string(e.Action), Name: e.Name, Detail: e.Detail,
			Failure: e.Failure,
		})
		if len(out.Items) == in.Limit {
			out.Next = e.Cursor
			break
		}
	}
	return out, nil
}
