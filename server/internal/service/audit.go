package service

import (
	"cmp"
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// audited records an action of the server itself in the audit log, carries it out, and records its failure.
func (s *Service) audited(
	ctx context.Context, action string, name, detail string, act func() error,
) error {
	entry := auditlink.Entry{
		Actor: cmp.Or(login.From(ctx).Name, "client"), Action: string(action), Name: name, Detail: detail,
	}
	return engine.Audited(ctx, s.engine.Internal(), entry, act)
}

// ListAudit implements httpapi.ListAudit.
func (s *Service) ListAudit(ctx context.Context, in *api.ListAuditInput) (
	*fabrictype.Page[fabrictype.AuditEntry], error,
) {
	out := &fabrictype.Page[fabrictype.AuditEntry]{Items: []fabrictype.AuditEntry{}}
	query := runtime.AuditQuery{
		Actor: in.Actor, Action: in.Action, Name: in.Name, From: in.From, Before: in.Before,
		After: in.Cursor,
	}
	for e, err := range s.client.Audit(ctx, query) {
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, e)
		if len(out.Items) == in.Limit {
			out.Next = e.Cursor
			break
		}
	}
	return out, nil
}
