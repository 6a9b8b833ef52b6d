package serverstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// ErrSessionNotFound is returned for an id that no session has, or one that has ended.
var ErrSessionNotFound = errors.New("no such session")

// Session is the login of a browser. The content of its cookie is not stored, so a reader of the store cannot log in.
type Session struct {
	// ID identifies the session. Nobody can log in with it.
	ID string `json:"-"`
	// Login is the kind of login, Principal the name that it gave, Groups those of its groups that grants name.
	Login     string    `json:"login"`
	Principal string    `json:"principal"`
	Groups    []string  `json:"groups,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// owner begins the ids of the sessions of a principal.
func (s *Session) owner() string {
	sum := sha256.Sum256([]byte(s.Login + " " + s.Principal))
	return hex.EncodeToString(sum[:8])
}

// NewID returns a new id for a session of the principal.
func (s *Session) NewID() string { return s.owner() + strings.ToLower(rand.Text()) }

// maxSessions is how many sessions a namespace has at most.
const maxSessions = 10_000

// AddSession stores a session until it expires. A principal has 100 sessions at most, a namespace 10,000: beyond that,
// those end that would expire first. An engine in contract mode stores none.
func (s *Store) AddSession(ctx context.Context, session Session) error {
	about, err := json.Marshal(session)
	if err != nil {
		return err
	}
	_, err = s.conn.AddAPISession(ctx, enginerpc.AddAPISessionCall{
		Partition: directory, Namespace: s.namespace, SessionID: session.ID, Owner: session.owner(), About: about,
		TTL: session.ExpiresAt.Sub(session.CreatedAt),
	})
	if errors.Is(err, enginecore.ErrContractOnly) {
		return nil
	}
	return err
}

// Session returns a session. The error matches ErrSessionNotFound for one that has ended, and
// enginecore.ErrContractOnly if the engine stores none.
func (s *Store) Session(ctx context.Context, id string) (Session, error) {
	reply, err := s.conn.ReadAPISession(ctx, enginerpc.ReadAPISessionCall{
		Partition: directory, Namespace: s.namespace, SessionID: id,
	})
	switch {
	case err != nil:
		return Session{}, err
	case reply.About == "":
		return Session{}, fmt.Errorf("%w: %.80q", ErrSessionNotFound, id)
	}
	return decodeSession(id, []byte(reply.About))
}

func decodeSession(id string, about []byte) (Session, error) {
	session := Session{ID: id}
	if err := json.Unmarshal(about, &session); err != nil {
		return Session{}, fmt.Errorf("session %.80q: %w", id, err)
	}
	return session, nil
}

// Sessions returns up to limit sessions in the order in which they end, of one principal unless that is empty. It
// begins after a cursor; empty for the first. next is the cursor of the next page, empty after the last one.
func (s *Store) Sessions(
	ctx context.Context, principal, cursor string, limit int,
) (page []Session, next string, err error) {
	call := enginerpc.ListAPISessionsCall{
		Partition: directory, Namespace: s.namespace, Limit: int64(limit), Cursor: cursor,
	}
	if principal != "" {
		call.Limit = maxSessions // most of them may be those of others; the engine answers fewer at a time
	}
	for {
		reply, err := s.conn.ListAPISessions(ctx, call)
		if err != nil {
			return nil, "", err
		}
		for i, stored := range reply.Sessions {
			session, err := decodeSession(stored.SessionID, stored.About)
			if err != nil {
				return nil, "", err
			}
			if principal != "" && session.Principal != principal {
				continue
			}
			page = append(page, session)
			switch {
			case len(page) < limit:
			case i == len(reply.Sessions)-1:
				return page, reply.NextCursor, nil
			default:
				return page, stored.Position, nil
			}
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return page, "", nil
		}
	}
}

// RemoveSession ends a session. The error matches ErrSessionNotFound for one that has ended.
func (s *Store) RemoveSession(ctx context.Context, id string) error {
	reply, err := s.conn.RemoveAPISession(ctx, enginerpc.RemoveAPISessionCall{
		Partition: directory, Namespace: s.namespace, SessionID: id,
	})
	if err == nil && !reply.Removed {
		err = fmt.Errorf("%w: %.80q", ErrSessionNotFound, id)
	}
	return err
}
