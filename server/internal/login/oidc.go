package login

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/time/rate"

	"github.com/flowfabric/flowfabric-go/internal/serverstore"
)

// OIDCConfig configures the login at an OpenID Connect provider.
type OIDCConfig struct {
	Issuer, ClientID, ClientSecret string
	// RedirectURL is the address of the callback, as browsers see it.
	RedirectURL string
	Scopes      []string
	// NameClaim and GroupsClaim are the claims of the ID token with the name and the groups of a principal.
	NameClaim, GroupsClaim string
	// SessionKey encrypts the cookies; SessionLife is how long a login lasts.
	SessionKey  []byte
	SessionLife time.Duration
	Grants      []Grant
	HTTPClient  *http.Client
	Logger      *slog.Logger
}

// OIDC is the login at an OpenID Connect provider: browsers get a session in an encrypted cookie, programs send an ID
// token of the client as a bearer token. The sessions that last are in the engine, so servers with the same key share
// them, and a session that is removed there ends.
type OIDC struct {
	config          OIDCConfig
	lasting         *sessions
	cookies         cookies
	home            string
	session, flight *sealer
	now             func() time.Time

	mu       sync.Mutex
	provider *oidc.Provider
	// failure is why the provider did not answer at failedAt.
	failure  error
	failedAt time.Time
}

const (
	sessionCookie = "flowfabric_session"
	// flightCookie lasts from the redirect to the provider to the callback.
	flightCookie = "flowfabric_login"
	flightLife   = 10 * time.Minute
	// maxSession is the longest value of a cookie that browsers keep.
	maxSession = 3800
	// discoveryTimeout bounds a request to the provider.
	discoveryTimeout = 10 * time.Second
)

// session is the content of a session cookie.
type session struct {
	ID   string `json:"i"`
	Name string `json:"n"`
	// Groups are those that a grant names: a principal may be in more than a cookie has room for.
	Groups  []string  `json:"g,omitempty"`
	Expires time.Time `json:"e"`
}

// flight contains the data of the redirect to the provider that the callback needs.
type flight struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	Return   string    `json:"r"`
	Expires  time.Time `json:"e"`
}

// NewOIDC returns the login. It queries the provider only when a browser logs in. home is the path to which browsers
// return; store has the sessions.
func NewOIDC(config OIDCConfig, home string, store *serverstore.Store) (*OIDC, error) {
	redirect, err := url.Parse(config.RedirectURL)
	if err != nil {
		return nil, err
	}
	o := &OIDC{
		config: config, cookies: cookies{path: home, secure: redirect.Scheme == "https"}, home: home, now: time.Now,
		lasting: newSessions(store),
	}
	if o.session, err = newSealer(config.SessionKey, "session"); err != nil {
		return nil, err
	}
	o.flight, err = newSealer(config.SessionKey, "login")
	return o, err
}

// found returns the provider. The first call requests its addresses and keys.
func (o *OIDC) found() (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider != nil {
		return o.provider, nil
	}
	if o.failure != nil && o.now().Sub(o.failedAt) < discoveryPause {
		return nil, o.failure
	}
	// The provider keeps the context for later requests for keys, so it must not end with a request.
	client := *cmp.Or(o.config.HTTPClient, http.DefaultClient)
	client.Timeout = cmp.Or(client.Timeout, discoveryTimeout)
	keys := newBoundedKeys(client.Transport)
	client.Transport = keys
	provider, err := oidc.NewProvider(oidc.ClientContext(context.Background(), &client), o.config.Issuer)
	var found struct {
		Keys string `json:"jwks_uri"`
	}
	if err == nil {
		err = provider.Claims(&found)
	}
	if err != nil {
		o.failure, o.failedAt = err, o.now()
		return nil, err
	}
	keys.url.Store(&found.Keys)
	o.provider, o.failure = provider, nil
	return provider, nil
}

func (o *OIDC) exchange(p *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.config.ClientID, ClientSecret: o.config.ClientSecret, Endpoint: p.Endpoint(),
		RedirectURL: o.config.RedirectURL, Scopes: append([]string{oidc.ScopeOpenID}, o.config.Scopes...),
	}
}

// Principal implements Method.
func (o *OIDC) Principal(r *http.Request) (Principal, bool, error) {
	if text := bearer(r); strings.Count(text, ".") == 2 {
		return o.byToken(r.Context(), text)
	}
	s, ok := o.sessionOf(r)
	if !ok {
		return Principal{}, false, nil
	}
	if lasts, err := o.lasting.last(r.Context(), s.ID, o.now()); err != nil || !lasts {
		return Principal{}, err != nil, err
	}
	p, ok := Granted(o.config.Grants, ByOIDC, s.Name, s.Groups)
	if !ok {
		return Principal{}, true, ErrRefused
	}
	return p, true, nil
}

// sessionOf returns the session of the cookie of a request. It may have been removed.
func (o *OIDC) sessionOf(r *http.Request) (s session, ok bool) {
	text := o.cookies.get(r, sessionCookie)
	ok = text != "" && o.session.open(text, &s) == nil && s.ID != "" && o.now().Before(s.Expires)
	return s, ok
}

// byToken is the login by an ID token.
func (o *OIDC) byToken(ctx context.Context, text string) (Principal, bool, error) {
	provider, err := o.found()
	if err != nil {
		o.warn(ctx, "the OIDC provider does not answer", err)
		return Principal{}, true, ErrRefused
	}
	token, err := provider.Verifier(&oidc.Config{ClientID: o.config.ClientID}).Verify(ctx, text)
	if err != nil {
		return Principal{}, true, ErrRefused
	}
	claims, err := o.claimsOf(token)
	if err != nil {
		return Principal{}, true, ErrRefused
	}
	name, groups, err := o.principal(claims)
	if err != nil {
		return Principal{}, true, ErrRefused
	}
	p, ok := Granted(o.config.Grants, ByOIDC, name, groups)
	if !ok {
		return Principal{}, true, ErrRefused
	}
	return p, true, nil
}

// Begin sends a browser to the provider.
func (o *OIDC) Begin(w http.ResponseWriter, r *http.Request) {
	provider, err := o.found()
	if err != nil {
		o.warn(r.Context(), "the OIDC provider does not answer", err)
		http.Error(w, "the login provider does not answer; try later", http.StatusBadGateway)
		return
	}
	f := flight{
		State: randomText(), Nonce: randomText(), Verifier: oauth2.GenerateVerifier(),
		Return: o.local(r.URL.Query().Get("return")), Expires: o.now().Add(flightLife),
	}
	text, err := o.flight.seal(f)
	if err != nil {
		http.Error(w, "the login failed", http.StatusInternalServerError)
		return
	}
	o.cookies.set(w, flightCookie, text, flightLife)
	options := []oauth2.AuthCodeOption{oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)}
	http.Redirect(w, r, o.exchange(provider).AuthCodeURL(f.State, options...), http.StatusFound)
}

// local returns a path of this server to return to, for any path in a link.
func (o *OIDC) local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, o.home) ||
		strings.HasPrefix(u.Path, "//") || strings.ContainsAny(path, "\\\r\n") ||
		slices.ContainsFunc(strings.Split(u.Path, "/"), isDots) { // which lead out of the home
		return o.home
	}
	return u.RequestURI()
}

// isDots reports whether a part of a path means the folder itself or its parent.
func isDots(part string) bool { return part == "." || part == ".." }

// End takes the answer of the provider, and begins a session.
func (o *OIDC) End(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, text string, err error) {
		o.warn(r.Context(), "a login by OIDC failed", err)
		o.cookies.set(w, flightCookie, "", -time.Second)
		http.Error(w, text, status)
	}
	var f flight
	query := r.URL.Query()
	err := o.flight.open(o.cookies.get(r, flightCookie), &f)
	switch {
	case err != nil:
		refuse(http.StatusBadRequest, "the login was not begun in this browser, or has expired; try again", err)
		return
	case !o.now().Before(f.Expires), subtle.ConstantTimeCompare([]byte(f.State), []byte(query.Get("state"))) != 1:
		refuse(http.StatusBadRequest, "the login has expired; try again", errors.New("state or time do not fit"))
		return
	case query.Get("error") != "":
		refuse(http.StatusForbidden, "the login provider refused the login", fmt.Errorf("%.100q", query.Get("error")))
		return
	}
	name, groups, err := o.redeem(r.Context(), query.Get("code"), f)
	if err != nil {
		refuse(http.StatusForbidden, "the login failed; the server's log has the cause", err)
		return
	}
	if _, ok := Granted(o.config.Grants, ByOIDC, name, groups); !ok {
		refuse(http.StatusForbidden, "you have no rights on this server", fmt.Errorf("no grant matches %.100q", name))
		return
	}
	groups = slices.DeleteFunc(groups, func(group string) bool {
		return !slices.ContainsFunc(o.config.Grants, func(g Grant) bool { return g.MatchGroup == group })
	})
	text, err := o.begin(r.Context(), name, groups)
	if err != nil {
		refuse(http.StatusInternalServerError, "the login failed; the server's log has the cause", err)
		return
	}
	o.cookies.set(w, flightCookie, "", -time.Second)
	o.cookies.set(w, sessionCookie, text, o.config.SessionLife)
	http.Redirect(w, r, f.Return, http.StatusFound)
}

// begin begins a session, and returns the value of its cookie.
func (o *OIDC) begin(ctx context.Context, name string, groups []string) (string, error) {
	now := o.now()
	kept := serverstore.Session{
		Login: string(ByOIDC), Principal: name, Groups: groups, CreatedAt: now.UTC().Truncate(time.Millisecond),
		ExpiresAt: now.Add(o.config.SessionLife).UTC().Truncate(time.Millisecond),
	}
	kept.ID = kept.NewID()
	text, err := o.session.seal(session{kept.ID, name, groups, kept.ExpiresAt})
	if err != nil {
		return "", err
	}
	if len(text) > maxSession {
		return "", fmt.Errorf("the session of %.100q has %d bytes, at most %d are possible", name, len(text),
			maxSession)
	}
	return text, o.lasting.store.AddSession(ctx, kept)
}

// redeem exchanges the code for an ID token, and returns who has logged in.
func (o *OIDC) redeem(ctx context.Context, code string, f flight) (name string, groups []string, err error) {
	provider, err := o.found()
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	if o.config.HTTPClient != nil {
		ctx = oidc.ClientContext(ctx, o.config.HTTPClient)
	}
	reply, err := o.exchange(provider).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return "", nil, withoutBody(err)
	}
	text, _ := reply.Extra("id_token").(string)
	token, err := provider.Verifier(&oidc.Config{ClientID: o.config.ClientID}).Verify(ctx, text)
	if err != nil {
		return "", nil, fmt.Errorf("the ID token is not valid: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(f.Nonce)) != 1 {
		return "", nil, errors.New("the ID token belongs to another login")
	}
	claims, err := o.claimsOf(token)
	if err != nil {
		return "", nil, err
	}
	if err := o.complete(ctx, provider, reply, token.Subject, claims); err != nil {
		return "", nil, err
	}
	return o.principal(claims)
}

// complete adds claims that the provider gives at its user info endpoint alone.
func (o *OIDC) complete(
	ctx context.Context, provider *oidc.Provider, reply *oauth2.Token, subject string, claims claims,
) error {
	if claims.has(o.config.NameClaim) && claims.has(o.config.GroupsClaim) || provider.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(reply))
	if err != nil {
		return errors.New("the provider refused to describe the principal")
	}
	if info.Subject != subject {
		return errors.New("the provider described another principal than the ID token")
	}
	var more map[string]json.RawMessage
	if err := info.Claims(&more); err != nil {
		return err
	}
	for name, value := range more {
		if !claims.has(name) {
			claims[name] = value
		}
	}
	return nil
}

// withoutBody removes the provider's reply from an error, since it may repeat secrets.
func withoutBody(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return fmt.Errorf("the provider refused the code: %.100q", refused.ErrorCode)
	}
	return err
}

// Logout ends the session of a browser, also for copies of its cookie. The session at the provider continues.
func (o *OIDC) Logout(w http.ResponseWriter, r *http.Request) {
	if s, ok := o.sessionOf(r); ok {
		if err := o.lasting.end(r.Context(), s.ID); err != nil {
			o.warn(r.Context(), "a session could not be removed", err)
			http.Error(w, "the session could not be ended; try again", http.StatusServiceUnavailable)
			return
		}
	}
	o.cookies.set(w, sessionCookie, "", -time.Second)
	http.Redirect(w, r, o.home, http.StatusSeeOther)
}

func (o *OIDC) warn(ctx context.Context, message string, err error) {
	o.config.Logger.WarnContext(ctx, message, "event", "server.login_failed", "issuer", o.config.Issuer, "error", err)
}

const (
	// keysEvery is the time between two requests for the keys of a provider; keysAtOnce is the number of further
	// requests. Each ID token with an unknown key needs a request, also a forged one.
	keysEvery  = 10 * time.Second
	keysAtOnce = 2
	// discoveryPause is the time after which a provider that did not answer is queried again.
	discoveryPause = 5 * time.Second
)

// errKeysFresh is the error of a request for keys that were read a short while ago.
var errKeysFresh = errors.New("the keys of the provider were read a short while ago")

// boundedKeys bounds the requests for the keys of a provider. Others pass.
type boundedKeys struct {
	next  http.RoundTripper
	url   atomic.Pointer[string]
	again *rate.Limiter
}

func newBoundedKeys(next http.RoundTripper) *boundedKeys {
	if next == nil {
		next = http.DefaultTransport
	}
	return &boundedKeys{next: next, again: rate.NewLimiter(rate.Every(keysEvery), keysAtOnce)}
}

// RoundTrip implements http.RoundTripper.
func (b *boundedKeys) RoundTrip(r *http.Request) (*http.Response, error) {
	if url := b.url.Load(); url != nil && r.URL.String() == *url && !b.again.Allow() {
		return nil, errKeysFresh
	}
	return b.next.RoundTrip(r)
}
