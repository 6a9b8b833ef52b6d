package login

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
)

// ErrRefused is returned for credentials that are not valid. It contains no reason.
var ErrRefused = errors.New("the credentials are not valid")

// Method finds the principal of a request by one kind of credentials.
type Method interface {
	// Principal returns the principal; ok is false if the request has no credentials of this kind. The error matches
	// ErrRefused for credentials that are not valid.
	Principal(r *http.Request) (p Principal, ok bool, err error)
}

// Tokens is the login by bearer tokens that are stored in the engine. Those that it has read are used for a few
// seconds, so that a request costs no call of the engine; a deleted token ends when they are read again.
type Tokens struct {
	store *serverstore.Store
	now   func() time.Time
	// again bounds how often tokens that are not known make the login read all tokens again.
	again *rate.Limiter

	mu     sync.Mutex
	byHash map[string]serverstore.Token
	readAt time.Time
}

// TokenPrefix begins the text of every token, so that scanners for secrets find them.
const TokenPrefix = "ffk_"

// tokensFresh is how long the tokens that were read are used.
const tokensFresh = 2 * time.Second

// NewTokens returns the login by the tokens of a store.
func NewTokens(store *serverstore.Store) *Tokens {
	return &Tokens{store: store, now: time.Now, again: rate.NewLimiter(20, 20)}
}

// bearer returns the bearer token of a request; empty without one.
func bearer(r *http.Request) string {
	scheme, text, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

// Principal implements Method.
func (t *Tokens) Principal(r *http.Request) (Principal, bool, error) {
	text := bearer(r)
	if !strings.HasPrefix(text, TokenPrefix) {
		return Principal{}, false, nil
	}
	sum := sha256.Sum256([]byte(text))
	token, err := t.find(r.Context(), hex.EncodeToString(sum[:]))
	if err != nil {
		return Principal{}, true, err
	}
	p := Principal{Name: token.Name, Kind: ByToken, Rights: api.Role(token.Role).Rights(), Flows: token.Flows}
	for _, right := range token.Rights {
		if !p.May(api.Right(right)) {
			p.Rights = append(p.Rights, api.Right(right))
		}
	}
	return p, true, nil
}

// find returns the token with that hash of its text. It reads the tokens again before it refuses one that it does not
// know, which may be new.
func (t *Tokens) find(ctx context.Context, hash string) (serverstore.Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	token, known := t.byHash[hash]
	if now.Sub(t.readAt) > tokensFresh || !known && t.again.AllowN(now, 1) {
		if err := t.read(ctx, now); err != nil {
			return serverstore.Token{}, err
		}
		token, known = t.byHash[hash]
	}
	if !known || !token.ExpiresAt.IsZero() && !now.Before(token.ExpiresAt) {
		return serverstore.Token{}, ErrRefused
	}
	return token, nil
}

func (t *Tokens) read(ctx context.Context, now time.Time) error {
	tokens, err := t.store.Tokens(ctx)
	if err != nil {
		return err
	}
	t.byHash, t.readAt = make(map[string]serverstore.Token, len(tokens)), now
	for _, token := range tokens {
		t.byHash[token.Hash] = token
	}
	return nil
}

// Secret is the login by one bearer token with all rights, which the configuration of the server has.
type Secret struct{ sum [sha256.Size]byte }

// NewSecret returns the login by a token.
func NewSecret(token string) *Secret { return &Secret{sha256.Sum256([]byte(token))} }

// Principal implements Method. A request with another token is left to other methods.
func (s *Secret) Principal(r *http.Request) (Principal, bool, error) {
	text := bearer(r)
	sum := sha256.Sum256([]byte(text))
	if text == "" || subtle.ConstantTimeCompare(sum[:], s.sum[:]) != 1 {
		return Principal{}, false, nil
	}
	return Principal{Name: "admin", Kind: ByToken, Rights: httpapi.Rights()}, true, nil
}
