package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

func tokenOf(t serverstore.Token) api.Token {
	out := api.Token{
		Name: t.Name, Role: api.Role(t.Role), Flows: t.Flows, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
		ExpiresAt: t.ExpiresAt,
	}
	for _, right := range t.Rights {
		out.Rights = append(out.Rights, api.Right(right))
	}
	return out
}

// ListTokens implements httpapi.ListTokens.
func (s *Service) ListTokens(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[api.Token], error) {
	tokens, err := s.store.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(tokens, tokenOf), nil
}

// HashToken is the stored form of the text of a token. The text has 256 random bits, so that a plain hash does not
// reveal it.
func HashToken(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// CreateToken implements httpapi.CreateToken.
func (s *Service) CreateToken(ctx context.Context, in *httpapi.CreateTokenInput) (*api.CreatedToken, error) {
	b := &in.Body
	if err := recordtext.NameFault(b.Name); err != nil {
		return nil, faultAt("/name", "must be fit for URLs, got: %.140q: %v", b.Name, err)
	}
	if _, err := path.Match(b.Flows, ""); err != nil {
		return nil, faultAt("/flows", "must be a pattern such as billing-*, got: %q", b.Flows)
	}
	if b.Expires.Duration < 0 {
		return nil, faultAt("/expires", "must not be negative, got: %s", b.Expires.Duration)
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return nil, err
	}
	text := login.TokenPrefix + hex.EncodeToString(secret[:])
	token := serverstore.Token{
		Name: b.Name, Hash: HashToken(text), Role: string(b.Role), Flows: b.Flows,
		CreatedAt: s.now().UTC().Truncate(time.Millisecond),
		CreatedBy: login.From(ctx).Name,
	}
	for _, right := range b.Rights {
		token.Rights = append(token.Rights, string(right))
	}
	if b.Expires.Duration > 0 {
		token.ExpiresAt = token.CreatedAt.Add(b.Expires.Duration)
	}
	err := s.audited(ctx, auditlink.CreateToken, token.Name, allowedBy(token), func() error {
		return s.store.AddToken(ctx, token)
	})
	if err != nil {
		return nil, err
	}
	return &api.CreatedToken{Token: tokenOf(token), Text: text}, nil
}

// DeleteToken implements httpapi.DeleteToken.
func (s *Service) DeleteToken(ctx context.Context, in *httpapi.TokenNameInput) (*httpapi.Empty, error) {
	return done(s.audited(ctx, auditlink.DeleteToken, in.Token, "", func() error {
		return s.store.RemoveToken(ctx, in.Token)
	}))
}

// allowedBy describes the rights of a token for the audit log.
func allowedBy(t serverstore.Token) string {
	detail := "role " + t.Role
	if len(t.Rights) > 0 {
		detail += " and " + strings.Join(t.Rights, ", ")
	}
	if t.Flows != "" {
		detail += " for " + t.Flows
	}
	if !t.ExpiresAt.IsZero() {
		detail += " until " + t.ExpiresAt.Format(time.RFC3339)
	}
	return detail
}

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
