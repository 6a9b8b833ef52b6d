package login

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
)

// FuzzBearer sends any Authorization header. Only the token that was issued lets in, only while it is valid, and only
// with its rights.
func FuzzBearer(f *testing.F) {
	const valid, ended, secret = TokenPrefix + "abcdefghijklmnopqrstuvwxyz0123456789", TokenPrefix + "ended", "the secret of the configuration"
	for _, seed := range []string{
		"Bearer " + valid, "bearer  " + valid + " ", "Bearer " + valid[:20], "Bearer " + ended, "Basic " + valid, valid, "Bearer", "Bearer " + secret, "Bearer " + secret + "\x00",
		"Bearer " + strings.ToUpper(valid), "Bearer\t" + valid, "Bearer " + valid + "," + valid,
	} {
		f.Add(seed)
	}
	now := time.Now()
	tokens := &Tokens{now: func() time.Time { return now }, readAt: now, again: rate.NewLimiter(0, 0), byHash: map[string]serverstore.Token{
		hashOf(valid): {Name: "ci", Role: string(api.Viewer)},
		hashOf(ended): {Name: "old", Role: string(api.Admin), ExpiresAt: now.Add(-time.Second)},
	}}
	configured := NewSecret(secret)
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = []string{header}
		scheme, text, _ := strings.Cut(header, " ")
		text = strings.TrimSpace(text)
		names := strings.EqualFold(scheme, "bearer")
		p, ok, err := tokens.Principal(r)
		if names && text == valid {
			require.True(t, ok)
			require.NoError(t, err)
			require.Equal(t, "ci", p.Name)
			require.Equal(t, api.Viewer.Rights(), p.Rights)
		} else {
			require.Empty(t, p.Rights, "%q", header)
			require.True(t, !ok || err != nil)
		}
		p, ok, err = configured.Principal(r)
		require.NoError(t, err)
		require.Equal(t, names && text == secret, ok, "%q", header)
		require.Equal(t, ok, len(p.Rights) > 0)
	})
}

// FuzzCookie opens any text as a cookie. Only text that was sealed for the same purpose opens.
func FuzzCookie(f *testing.F) {
	key := []byte("a key of thirty-two bytes or more")
	sessions, err := newSealer(key, "session")
	require.NoError(f, err)
	logins, err := newSealer(key, "login")
	require.NoError(f, err)
	others, err := newSealer([]byte("another key of thirty-two bytes or so"), "session")
	require.NoError(f, err)
	content := session{Name: "ann", Groups: []string{"ops"}}
	for _, s := range []*sealer{sessions, logins, others} {
		text, err := s.seal(content)
		require.NoError(f, err)
		f.Add(text)
		f.Add(text[:len(text)-2])
		f.Add(text + "AAAA")
	}
	f.Add("")
	f.Add("=")
	whole, err := sessions.seal(content)
	require.NoError(f, err)
	f.Add(whole)
	f.Fuzz(func(t *testing.T, text string) {
		var got session
		if others.open(text, &got) == nil || logins.open(text, &got) == nil {
			return // one of the seeds
		}
		if sessions.open(text, &got) == nil {
			require.Equal(t, content, got, "something else was opened")
		}
	})
}

// FuzzReturnPath requests to return to any address after a login: the result is an address of this server, below its
// home.
func FuzzReturnPath(f *testing.F) {
	for _, seed := range []string{
		"/console/runs?x=1", "//evil.example/console/", "/console/../../x", "/\\evil.example", "https://evil.example/console/", "/console/\r\nSet-Cookie: x=y", "/console//evil.example",
		"/console/%2f%2fevil.example", "javascript:alert(1)//console/", "/console/?next=//evil.example", "\x00/console/", "/console/#//evil", "http:///console/x", "/console/@evil.example:80/",
	} {
		f.Add(seed)
	}
	base, err := url.Parse("https://flows.example/console/login")
	require.NoError(f, err)
	for _, home := range []string{"/console/", "/"} {
		require.Equal(f, home, (&OIDC{home: home}).local("https://evil.example"))
	}
	f.Fuzz(func(t *testing.T, asked string) {
		for _, home := range []string{"/console/", "/"} {
			path := (&OIDC{home: home}).local(asked)
			require.False(t, strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\x00"), "%q from %q", path, asked)
			at, err := base.Parse(path)
			require.NoError(t, err)
			require.Equal(t, "flows.example", at.Host, "%q from %q", path, asked)
			require.Equal(t, "https", at.Scheme)
			require.True(t, strings.HasPrefix(at.Path, home), "%q from %q leads to %q", path, asked, at.Path)
		}
	})
}

// FuzzProxyHeaders sends any headers of a proxy from any address. Only requests from the proxy have a principal, and it
// has the one name of the header.
func FuzzProxyHeaders(f *testing.F) {
	f.Add("10.0.0.1:80", "ann", "ops,dev")
	f.Add("[::ffff:10.0.0.1]:80", "ann", "")
	f.Add("192.0.2.1:80", "ann", "ops")
	f.Add("10.0.0.1", "ann", "ops")
	f.Add("10.0.0.1:80", "", "ops")
	f.Add("10.0.0.1:80", "ops", "dev")
	proxy := &Proxy{
		UserHeader: "X-User", GroupsHeader: "X-Groups", From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
		Grants: []Grant{{MatchGroup: "ops", Role: api.Operator}},
	}
	f.Fuzz(func(t *testing.T, address, user, groups string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = address
		r.Header["X-User"], r.Header["X-Groups"] = []string{user}, []string{groups}
		p, ok, err := proxy.Principal(r)
		if len(p.Rights) == 0 {
			require.True(t, !ok || err != nil)
			return
		}
		from, parseErr := netip.ParseAddrPort(address)
		require.NoError(t, parseErr)
		require.True(t, proxy.From[0].Contains(from.Addr().Unmap()))
		require.NoError(t, err)
		require.Equal(t, user, p.Name)
		require.Contains(t, strings.FieldsFunc(groups, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }), "ops",
			"groups come from their header, never from the name %q", user)
	})
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
