package server_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/server"
)

// newOIDCPlace is a place whose server has the login at a new provider, under a path if base is not empty.
func newOIDCPlace(t *testing.T, base string, configure ...func(*server.OIDCLogin)) *place {
	t.Helper()
	return newOIDCPlaceOf(t, enginetest.New(t, testserver.Embedded), base, configure...)
}

func newOIDCPlaceOf(t *testing.T, b *enginetest.Bench, base string, configure ...func(*server.OIDCLogin)) *place {
	t.Helper()
	front := httptest.NewUnstartedServer(nil)
	address := "http://" + front.Listener.Addr().String()
	redirect := address + base + "/auth/callback"
	p := newPlaceOf(t, b, func(c *server.Config) {
		c.BasePath, c.AdminToken = base, adminSecret
		c.OIDC = &server.OIDCLogin{
			Issuer: newProvider(t, redirect).issuer, ClientID: oidcClient, ClientSecret: oidcSecret, RedirectURL: redirect,
			Grants: []server.Grant{{MatchGroup: "ops", Role: api.Operator}, {MatchName: "three@example.com", Role: api.Viewer}},
		}
		for _, change := range configure {
			change(c.OIDC)
		}
	})
	front.Config.Handler = p.server.Handler()
	front.Start()
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	p.url = address + base
	return p
}

// browser is a client with cookies that follows redirects.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport}
}

var requestID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// logIn goes through the login, and returns the last reply and its body.
func logIn(t *testing.T, client *http.Client, address, user string) (*http.Response, string) {
	t.Helper()
	reply, err := client.Get(address)
	require.NoError(t, err)
	page, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	id := requestID.FindSubmatch(page)
	require.NotNil(t, id, "%s: %s", reply.Request.URL, page)
	form := url.Values{"id": {string(id[1])}, "username": {user}, "password": {oidcPassword}}
	reply, err = client.PostForm(reply.Request.URL.ResolveReference(&url.URL{Path: "/login/username"}).String(), form)
	require.NoError(t, err)
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	return reply, string(body)
}

func who(t *testing.T, client *http.Client, address string) (api.Principal, int) {
	t.Helper()
	reply, err := client.Get(address + "/api/v1/server")
	require.NoError(t, err)
	defer reply.Body.Close()
	var info api.ServerInfo
	require.NoError(t, json.NewDecoder(reply.Body).Decode(&info))
	return info.Principal, reply.StatusCode
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/flow/fabric"} {
		p := newOIDCPlace(t, base)
		client := browser(t)
		_, status := who(t, client, p.url)
		require.Equal(t, http.StatusUnauthorized, status)

		reply, _ := logIn(t, client, p.url+"/auth/login?return="+url.QueryEscape(base+"/openapi.json"), "user-one")
		require.Equal(t, http.StatusOK, reply.StatusCode)
		require.Equal(t, p.url+"/openapi.json", reply.Request.URL.String(), "the browser returns to where it was")
		principal, status := who(t, client, p.url)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "one@example.com", principal.Name)
		require.Equal(t, "oidc", principal.Login)
		require.Equal(t, api.Operator.Rights(), principal.Rights)

		address, err := url.Parse(p.url + "/")
		require.NoError(t, err)
		cookies := client.Jar.Cookies(address)
		require.Len(t, cookies, 1, "the cookie of the login is gone")
		require.NotContains(t, cookies[0].Value, "example")
		tampered := "B" + cookies[0].Value[1:]
		if tampered == cookies[0].Value {
			tampered = "C" + cookies[0].Value[1:]
		}
		request, err := http.NewRequest("GET", p.url+"/api/v1/server", nil)
		require.NoError(t, err)
		request.AddCookie(&http.Cookie{Name: cookies[0].Name, Value: tampered})
		reply, err = http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		require.Equal(t, http.StatusUnauthorized, reply.StatusCode)

		// Another site can neither act in the browser's session nor end it.
		for _, path := range []string{"/api/v1/lanes/default/pause", "/auth/logout"} {
			request, err = http.NewRequest("POST", p.url+path, strings.NewReader("{}"))
			require.NoError(t, err)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Sec-Fetch-Site", "cross-site")
			reply, err = client.Do(request)
			require.NoError(t, err)
			require.NoError(t, reply.Body.Close())
			require.Equal(t, http.StatusForbidden, reply.StatusCode, path)
		}
		reply, err = client.Post(p.url+"/auth/logout", "", nil)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		_, status = who(t, client, p.url)
		require.Equal(t, http.StatusUnauthorized, status)

		secrets := []string{oidcSecret, oidcPassword, cookies[0].Value, reply.Request.URL.Query().Get("code")}
		for _, secret := range secrets {
			if secret != "" {
				require.NotContains(t, p.log.String(), secret)
			}
		}
	}
}

func TestOIDCRefusals(t *testing.T) {
	t.Parallel()
	p := newOIDCPlace(t, "")
	reply, text := logIn(t, browser(t), p.url+"/auth/login", "user-two")
	require.Equal(t, http.StatusForbidden, reply.StatusCode, "a user whom no grant matches")
	require.Contains(t, text, "no rights")

	// A link of another site cannot send the browser away from the server.
	for _, to := range []string{"https://evil.example/", "//evil.example/", `/\evil.example/`, "javascript:alert(1)"} {
		reply, _ := logIn(t, browser(t), p.url+"/auth/login?return="+url.QueryEscape(to), "user-one")
		require.Equal(t, p.url+"/", reply.Request.URL.String(), to)
	}

	// An answer of the provider counts in the browser that was sent there, and once.
	get := func(client *http.Client, path string) int {
		reply, err := client.Get(p.url + path)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		return reply.StatusCode
	}
	require.Equal(t, http.StatusBadRequest, get(browser(t), "/auth/callback?code=x&state=y"))
	client := browser(t)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	require.Equal(t, http.StatusFound, get(client, "/auth/login"))
	require.Equal(t, http.StatusBadRequest, get(client, "/auth/callback?code=x&state=y"), "another state")
	require.Equal(t, http.StatusFound, get(client, "/auth/login"))
	address, err := url.Parse(p.url)
	require.NoError(t, err)
	require.NotEmpty(t, client.Jar.Cookies(address))

	p.token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJpZDEifQ."
	require.Equal(t, http.StatusUnauthorized, p.do("GET", "/server", nil, nil).StatusCode, "an unsigned token")
}

// tokens keeps the ID tokens that a provider gives.
type tokens struct{ last chan string }

// RoundTrip implements http.RoundTripper.
func (c tokens) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/token") {
		return reply, err
	}
	text, err := io.ReadAll(reply.Body)
	reply.Body = io.NopCloser(bytes.NewReader(text))
	var body struct {
		IDToken string `json:"id_token"`
	}
	if err == nil && json.Unmarshal(text, &body) == nil && body.IDToken != "" {
		c.last <- body.IDToken
	}
	return reply, err
}

// Programs send an ID token of the client.
func TestIDTokenAsBearer(t *testing.T) {
	t.Parallel()
	kept := tokens{make(chan string, 1)}
	p := newOIDCPlace(t, "", func(o *server.OIDCLogin) {
		o.NameClaim, o.Grants = "sub", []server.Grant{{MatchName: "id1", Role: api.Viewer}}
		o.HTTPClient = &http.Client{Transport: kept}
	})
	logIn(t, browser(t), p.url+"/auth/login", "user-one")
	p.token = <-kept.last
	var info api.ServerInfo
	require.Equal(t, http.StatusOK, p.do("GET", "/server", nil, &info).StatusCode)
	require.Equal(t, "id1", info.Principal.Name)
	require.Equal(t, "oidc", info.Principal.Login)
	require.NotContains(t, p.log.String(), p.token)
	p.token = p.token[:len(p.token)-6] + "AAAAAA"
	require.Equal(t, http.StatusUnauthorized, p.do("GET", "/server", nil, nil).StatusCode)
}

// The provider may be away when the server starts, and comes later.
func TestOIDCProviderIsAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) {
		c.OIDC = &server.OIDCLogin{
			Issuer: "http://127.0.0.1:1", ClientID: "x", RedirectURL: "http://127.0.0.1/auth/callback",
			Grants: []server.Grant{{MatchName: "*", Role: api.Viewer}},
		}
	})
	reply, err := http.Get(p.url + "/auth/login")
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	require.Equal(t, http.StatusBadGateway, reply.StatusCode)
}

// Tokens with forged signatures do not cause one request to the provider each, and a new key of the provider is found.
func TestForgedTokensDoNotFloodTheProvider(t *testing.T) {
	t.Parallel()
	const redirect = "http://127.0.0.1/auth/callback"
	issuer := newProvider(t, redirect)
	p := newPlace(t, func(c *server.Config) {
		c.OIDC = &server.OIDCLogin{
			Issuer: issuer.issuer, ClientID: oidcClient, RedirectURL: redirect, NameClaim: "sub",
			Grants: []server.Grant{{MatchName: "id1", Role: api.Viewer}},
		}
	})
	status := func(token string) int {
		return p.do("GET", "/server", nil, nil, "Authorization", "Bearer "+token).StatusCode
	}
	claims := map[string]any{"sub": "id1"}
	require.Equal(t, http.StatusOK, status(issuer.idToken("key", issuer.key, claims)))
	forger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for range 50 {
		require.Equal(t, http.StatusUnauthorized, status(issuer.idToken(rand.Text(), forger, claims)))
	}
	require.Less(t, issuer.keyRequests.Load(), int64(25), "of 50 forged tokens")
	require.Equal(t, http.StatusOK, status(issuer.idToken("key", issuer.key, claims)))
}
