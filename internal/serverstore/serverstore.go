package serverstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Errors of the store, for errors.Is.
var (
	// ErrTokenExists is returned by AddToken for a name that is taken.
	ErrTokenExists = errors.New("token exists")
	// ErrTokenNotFound is returned by RemoveToken for a name that no token has.
	ErrTokenNotFound = errors.New("no such token")
	// ErrRequestConflict is returned by BeginRequest for a key under which another request was made.
	ErrRequestConflict = errors.New("idempotency key belongs to another request")
	// ErrRequestRunning is returned by BeginRequest while another server or goroutine carries the request out.
	ErrRequestRunning = errors.New("the request is being carried out")
	// ErrRequestsFull is returned by BeginRequest for a principal of whom as many requests are kept as may be.
	ErrRequestsFull = errors.New("a principal has at most 100,000 idempotency keys, and 64 MiB of replies to them, " +
		"within 24 hours")
)

// MaxReply is the largest reply that EndRequest stores, in bytes.
const MaxReply = 256 << 10

// Store is the store of a namespace. It is safe for concurrent use.
type Store struct {
	conn      *enginerpc.Conn
	namespace string
}

// New returns the store of a namespace of an engine. It returns nil for one that was not made by runtime.Open.
func New(h engine.Handle, namespace string) *Store {
	conn := engine.ConnOf(h)
	if conn == nil {
		return nil
	}
	return &Store{conn, namespace}
}

var directory = keyspace.Partition{Family: keyspace.FlowFamily}

// Token is a token without its secret.
type Token struct {
	Name string `json:"-"`
	// Hash is the SHA-256 of the secret, in hex.
	Hash string `json:"hash"`
	Role string `json:"role"`
	// Rights are the rights in addition to the rights of the role.
	Rights []string `json:"rights,omitempty"`
	// Flows is the pattern of the flows that the token is for; empty for all.
	Flows     string    `json:"flows,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty"`
	// ExpiresAt is when the token ends; zero for never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// AddToken stores a token. The error matches ErrTokenExists for a name that is taken.
func (s *Store) AddToken(ctx context.Context, t Token) error {
	about, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = s.conn.AddAPIToken(ctx, enginerpc.AddAPITokenCall{
		Partition: directory, Namespace: s.namespace, TokenName: t.Name, About: about,
	})
	if errors.Is(err, errorcode.APITokenExists) {
		return fmt.Errorf("%w: %q", ErrTokenExists, t.Name)
	}
	return err
}

// Tokens returns all tokens, by name.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	reply, err := s.conn.ListAPITokens(ctx, enginerpc.ListAPITokensCall{Partition: directory, Namespace: s.namespace})
	if err != nil {
		return nil, err
	}
	tokens := make([]Token, len(reply.Tokens))
	for i, stored := range reply.Tokens {
		if err := json.Unmarshal(stored.About, &tokens[i]); err != nil {
			return nil, fmt.Errorf("token %q: %w", stored.TokenName, err)
		}
		tokens[i].Name = stored.TokenName
	}
	slices.SortFunc(tokens, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return tokens, nil
}

// RemoveToken removes a token. The error matches ErrTokenNotFound if there is none of that name.
func (s *Store) RemoveToken(ctx context.Context, name string) error {
	reply, err := s.conn.RemoveAPIToken(ctx, enginerpc.RemoveAPITokenCall{
		Partition: directory, Namespace: s.namespace, TokenName: name,
	})
	if err == nil && !reply.Removed {
		err = fmt.Errorf("%w: %q", ErrTokenNotFound, name)
	}
	return err
}

// Request identifies a request with an idempotency key.
type Request struct {
	// Owner is the principal who uses the key: each has separate keys.
	Owner string
	Key   string
	// Digest is the digest of the request: method, path and body.
	Digest [sha256.Size]byte
}

// Name is a text of 32 characters that all repeats of the request share, and no other request.
func (r Request) Name() string {
	sum := sha256.Sum256([]byte(r.owner() + r.key() + r.digest()))
	return hex.EncodeToString(sum[:16])
}

func (r Request) owner() string {
	sum := sha256.Sum256([]byte(r.Owner))
	return hex.EncodeToString(sum[:])
}
func (r Request) key() string    { sum := sha256.Sum256([]byte(r.Key)); return hex.EncodeToString(sum[:]) }
func (r Request) digest() string { return hex.EncodeToString(r.Digest[:]) }

// BeginRequest begins a request. If first is true, the caller carries the request out and calls EndRequest; a caller
// that does not within a minute lets a repeat of the request begin anew. Otherwise, stored is the reply of the first
// one. The error matches ErrRequestRunning while that has none, ErrRequestConflict for another request with this
// key, and ErrRequestsFull for a new key of an owner who has as many as are kept.
func (s *Store) BeginRequest(ctx context.Context, r Request) (stored []byte, first bool, err error) {
	reply, err := s.conn.BeginAPIRequest(ctx, enginerpc.BeginAPIRequestCall{
		Partition: directory, Namespace: s.namespace, Owner: r.owner(), RequestKey: r.key(), Digest: r.digest(),
	})
	switch {
	case errors.Is(err, errorcode.APIRequestConflict):
		return nil, false, ErrRequestConflict
	case errors.Is(err, errorcode.APIRequestsFull):
		return nil, false, ErrRequestsFull
	case err != nil:
		return nil, false, err
	case !reply.First && reply.Stored == "":
		return nil, false, ErrRequestRunning
	}
	return []byte(reply.Stored), reply.First, nil
}

// EndRequest stores the reply of a request for 24 hours; a nil one forgets the request.
func (s *Store) EndRequest(ctx context.Context, r Request, stored []byte) error {
	_, err := s.conn.EndAPIRequest(ctx, enginerpc.EndAPIRequestCall{
		Partition: directory, Namespace: s.namespace, Owner: r.owner(), RequestKey: r.key(), Digest: r.digest(),
		Stored: string(stored),
	})
	return err
}
