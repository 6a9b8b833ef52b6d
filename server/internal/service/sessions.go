package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
)

// ListSessions implements httpapi.ListSessions.
func (s *Service) ListSessions(
	ctx context.Context, in *httpapi.ListSessionsInput,
) (*fabrictype.Page[api.Session], error) {
	sessions, next, err := s.store.Sessions(ctx, in.Principal, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &fabrictype.Page[api.Session]{Items: make([]api.Session, len(sessions)), Next: next}
	for i, session := range sessions {
		out.Items[i] = sessionOf(session)
	}
	return out, nil
}

func sessionOf(s serverstore.Session) api.Session {
	return api.Session{
		ID: s.ID, Principal: s.Principal, Login: s.Login, Groups: s.Groups, CreatedAt: s.CreatedAt,
		ExpiresAt: s.ExpiresAt,
	}
}

// DeleteSession implements httpapi.DeleteSession. The entry of the audit log has whose session it was.
func (s *Service) DeleteSession(ctx context.Context, in *httpapi.SessionInput) (*httpapi.Empty, error) {
	session, err := s.store.Session(ctx, in.Session)
	if err != nil {
		return nil, err
	}
	detail := "session " + session.ID + ", by " + session.Login
	return done(s.audited(ctx, auditlink.DeleteSession, session.Principal, detail, func() error {
		return s.store.RemoveSession(ctx, session.ID)
	}))
}
