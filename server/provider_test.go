package server_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
)

const (
	oidcClient   = "flowfabric"
	oidcSecret   = "the secret of the client"
	oidcPassword = "verysecure" // of all users of the provider
)

// oidcUser is a user of a provider.
type oidcUser struct {
	Subject string   `json:"sub"`
	Email   string   `json:"email"`
	Groups  []string `json:"groups,omitempty"`
}

var oidcUsers = map[string]oidcUser{
	"user-one": {"id1", "one@example.com", []string{"staff", "ops"}}, "user-two": {"id2", "two@example.com", nil},
}

// grant is the data of a code or an access token of a provider.
type grant struct {
	user                   oidcUser
	nonce, challenge, back string
}

// provider is an OpenID Connect provider with the authorization code flow and PKCE. Its ID tokens have no more than the
// subject: the rest is at the endpoint for user info.
type provider struct {
	t        *testing.T
	issuer   string
	redirect string
	key      *rsa.PrivateKey
	// keyRequests counts the requests for its keys.
	keyRequests atomic.Int64

	mu     sync.Mutex
	grants map[string]grant
}

// newProvider starts a provider for a client with that redirection address.
func newProvider(t *testing.T, redirect string) *provider {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &provider{
		t: t, issuer: "http://" + listener.Addr().String(), redirect: redirect, key: key, grants: map[string]grant{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discover)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /login/username", p.login)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.userInfo)
	serving := httptest.NewUnstartedServer(mux)
	require.NoError(t, serving.Listener.Close())
	serving.Listener = listener
	serving.Start()
	t.Cleanup(func() {
		serving.CloseClientConnections()
		serving.Close()
	})
	return p
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func (p *provider) discover(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{
		"issuer": p.issuer, "authorization_endpoint": p.issuer + "/authorize", "token_endpoint": p.issuer + "/token",
		"jwks_uri": p.issuer + "/keys", "userinfo_endpoint": p.issuer + "/userinfo",
		"id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (p *provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.keyRequests.Add(1)
	writeJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: p.key.Public(), KeyID: "key", Algorithm: "RS256", Use: "sig"},
	}})
}

// keep stores a grant under a random text, and returns the text.
func (p *provider) keep(g grant) string {
	name := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants[name] = g
	return name
}

// take removes the grant of a text and returns it.
func (p *provider) take(name string) (grant, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, found := p.grants[name]
	delete(p.grants, name)
	return g, found
}

var loginPage = template.Must(template.New("").Parse(`<form action="/login/username" method="post">` +
	`<input name="id" value="{{.}}"><input name="username"><input name="password"></form>`))

func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != oidcClient || q.Get("redirect_uri") != p.redirect || q.Get("response_type") != "code" ||
		q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" {
		http.Error(w, "invalid request", http.StatusBadRequest)
		return
	}
	g := grant{nonce: q.Get("nonce"), challenge: q.Get("code_challenge"), back: p.redirect + "?state=" +
		template.URLQueryEscaper(q.Get("state"))}
	_ = loginPage.Execute(w, p.keep(g))
}

func (p *provider) login(w http.ResponseWriter, r *http.Request) {
	g, found := p.take(r.FormValue("id"))
	user, known := oidcUsers[r.FormValue("username")]
	if !found || !known || r.FormValue("password") != oidcPassword {
		http.Error(w, "wrong name or password", http.StatusForbidden)
		return
	}
	g.user = user
	http.Redirect(w, r, g.back+"&code="+p.keep(g), http.StatusSeeOther)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	client, secret, ok := r.BasicAuth()
	if !ok {
		client, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	g, found := p.take(r.FormValue("code"))
	verifier := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if client != oidcClient || secret != template.URLQueryEscaper(oidcSecret) && secret != oidcSecret || !found ||
		base64.RawURLEncoding.EncodeToString(verifier[:]) != g.challenge {
		w.WriteHeader(http.StatusBadRequest)
		writeJSON(w, map[string]string{"error": "invalid_grant"})
		return
	}
	writeJSON(w, map[string]any{
		"access_token": p.keep(grant{user: g.user}), "token_type": "Bearer", "expires_in": 300,
		"id_token": p.idToken("key", p.key, map[string]any{"sub": g.user.Subject, "nonce": g.nonce}),
	})
}

// idToken returns an ID token for the client with the claims, signed with a key.
func (p *provider) idToken(keyID string, key *rsa.PrivateKey, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: keyID},
	}, nil)
	require.NoError(p.t, err)
	all := map[string]any{
		"iss": p.issuer, "aud": oidcClient, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, value := range claims {
		all[name] = value
	}
	text, err := jwt.Signed(signer).Claims(all).Serialize()
	require.NoError(p.t, err)
	return text
}

func (p *provider) userInfo(w http.ResponseWriter, r *http.Request) {
	const prefix = "Bearer "
	header := r.Header.Get("Authorization")
	if len(header) < len(prefix) {
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	g, found := p.take(header[len(prefix):])
	if !found {
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	writeJSON(w, g.user)
}
