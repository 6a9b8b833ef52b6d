package server_test

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/server"
)

// session adds a session of a principal to the engine, for a time, and returns its id.
func (p *place) session(principal string, life time.Duration) string {
	p.t.Helper()
	s := serverstore.Session{
		Login: "oidc", Principal: principal, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(life),
	}
	s.ID = s.NewID()
	require.NoError(p.t, serverstore.New(p.bench.Engine.Internal(), "default").AddSession(enginetest.Context(p.t), s))
	return s.ID
}

// sessions lists the sessions of a principal; of all without one.
func (p *place) sessions(principal string) []api.Session {
	p.t.Helper()
	var page fabrictype.Page[api.Session]
	reply := p.admin().do("GET", "/sessions?principal="+url.QueryEscape(principal), nil, &page)
	require.Equal(p.t, http.StatusOK, reply.StatusCode)
	return page.Items
}

// Administrators see which browsers have logged in, and end a session: it is refused, also by another server of the
// same key, and its streams end. Other sessions continue.
func TestSessionsAreListedAndEnded(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		p := newOIDCPlaceOf(t, b, "")
		removed, kept := browser(t), browser(t)
		logIn(t, removed, p.url+"/auth/login", "user-one")
		first := p.sessions("")
		require.Len(t, first, 1)
		logIn(t, kept, p.url+"/auth/login", "user-one")
		require.Len(t, p.sessions("one@example.com"), 2)
		require.Empty(t, p.sessions("nobody"))
		s := first[0]
		require.Equal(t, api.Session{
			ID: s.ID, Principal: "one@example.com", Login: "oidc", Groups: []string{"ops"}, CreatedAt: s.CreatedAt,
			ExpiresAt: s.CreatedAt.Add(8 * time.Hour),
		}, s)

		var page fabrictype.Page[api.Session]
		p.admin().do("GET", "/sessions?limit=1", nil, &page)
		require.Len(t, page.Items, 1)
		require.NotEmpty(t, page.Next)
		seen := page.Items[0].ID
		p.admin().do("GET", "/sessions?limit=1&cursor="+page.Next, nil, &page)
		require.Len(t, page.Items, 1)
		require.NotEqual(t, seen, page.Items[0].ID)

		follow := func(client *http.Client) *bufio.Reader {
			request, err := http.NewRequestWithContext(enginetest.Context(t), "GET", p.url+httpapi.Prefix+"/feed", nil)
			require.NoError(t, err)
			request.Header.Set("Accept", "text/event-stream")
			reply, err := client.Do(request)
			require.NoError(t, err)
			t.Cleanup(func() { _ = reply.Body.Close() })
			require.Equal(t, http.StatusOK, reply.StatusCode)
			lines := bufio.NewReader(reply.Body)
			_, err = lines.ReadString('\n')
			require.NoError(t, err)
			return lines
		}
		ends, lasts := follow(removed), follow(kept)
		require.Equal(t, http.StatusNoContent, p.admin().do("DELETE", "/sessions/"+s.ID, nil, nil).StatusCode)
		rest, err := io.ReadAll(ends)
		require.NoError(t, err)
		require.Contains(t, string(rest), `"code":"unauthorized"`)
		_, status := who(t, removed, p.url)
		require.Equal(t, http.StatusUnauthorized, status)
		_, err = lasts.ReadString('\n')
		require.NoError(t, err)
		_, status = who(t, kept, p.url)
		require.Equal(t, http.StatusOK, status)
		require.Len(t, p.sessions(""), 1)

		var problem api.Problem
		require.Equal(t, http.StatusNotFound, p.admin().do("DELETE", "/sessions/"+s.ID, nil, &problem).StatusCode)
		require.Equal(t, "session_not_found", problem.Code)
		var entries fabrictype.Page[fabrictype.AuditEntry]
		p.admin().do("GET", "/audit?action=delete_session", nil, &entries)
		require.Len(t, entries.Items, 1)
		require.Equal(t, "one@example.com", entries.Items[0].Name)
		require.Contains(t, entries.Items[0].Detail, s.ID)
	})
}

// A logout ends the session for copies of its cookie, too.
func TestLogoutEndsCopiesOfTheCookie(t *testing.T) {
	t.Parallel()
	p := newOIDCPlace(t, "")
	client, thief := browser(t), browser(t)
	logIn(t, client, p.url+"/auth/login", "user-one")
	address, err := url.Parse(p.url + "/")
	require.NoError(t, err)
	thief.Jar.SetCookies(address, client.Jar.Cookies(address))
	_, status := who(t, thief, p.url)
	require.Equal(t, http.StatusOK, status)
	reply, err := client.Post(p.url+"/auth/logout", "", nil)
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	_, status = who(t, thief, p.url)
	require.Equal(t, http.StatusUnauthorized, status)
	require.Empty(t, p.sessions(""))
}

// A principal has a bounded number of sessions: beyond it, the oldest of its sessions end, not sessions of others.
func TestSessionsOfOnePrincipalAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(c *server.Config) { withTokens(c) }, func(t *testing.T, p *place) {
		p.token = adminSecret
		other, first := p.session("bob", time.Minute), p.session("ann", time.Hour)
		for range 100 {
			p.session("ann", 2*time.Hour)
		}
		require.Len(t, p.sessions("bob"), 1)
		require.Equal(t, other, p.sessions("bob")[0].ID)
		list := p.sessions("ann")
		require.Len(t, list, 100)
		for _, s := range list {
			require.NotEqual(t, first, s.ID)
		}
	})
}
