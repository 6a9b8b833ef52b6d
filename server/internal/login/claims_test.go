package login

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
)

// A claim that counts has the type that it must have, or the login is refused.
func TestClaimsAreReadStrictly(t *testing.T) {
	t.Parallel()
	o := &OIDC{config: OIDCConfig{ClientID: "us", NameClaim: "email", GroupsClaim: "groups"}}
	for _, c := range []struct {
		claims string
		groups []string
		fails  string
	}{
		{`{"email":"ann@example.com"}`, nil, ""},
		{`{"email":"ann@example.com","email_verified":true,"groups":["a","b"]}`, []string{"a", "b"}, ""},
		{`{"email":"ann@example.com","groups":"a"}`, []string{"a"}, ""},
		{`{"email":"ann@example.com","groups":null}`, nil, ""},
		{`{"email":"ann@example.com","groups":[]}`, []string{}, ""},
		{`{"email":"ann@example.com","email_verified":false}`, nil, "not verified"},
		{`{"email":"ann@example.com","email_verified":"false"}`, nil, "not verified"},
		{`{"email":"ann@example.com","email_verified":"true"}`, nil, "not verified"},
		{`{"email":"ann@example.com","email_verified":0}`, nil, "not verified"},
		{`{"email":"ann@example.com","email_verified":1}`, nil, "not verified"},
		{`{"email":"ann@example.com","email_verified":null}`, nil, "not verified"},
		{`{"email":"ann@example.com","email_verified":[true]}`, nil, "not verified"},
		{`{"email":["ann@example.com"]}`, nil, "must be a text"},
		{`{"email":7}`, nil, "must be a text"},
		{`{"email":""}`, nil, "is empty"},
		{`{"email":null}`, nil, "no claim"},
		{`{}`, nil, "no claim"},
		{`{"email":"ann@example.com","groups":7}`, nil, "text or a list of texts"},
		{`{"email":"ann@example.com","groups":{"a":true}}`, nil, "text or a list of texts"},
		{`{"email":"ann@example.com","groups":["a",7]}`, nil, "text or a list of texts"},
		{`{"email":"ann@example.com","groups":["a",null]}`, nil, "list of texts"},
		{`{"email":"ann@example.com","groups":[["a"]]}`, nil, "text or a list of texts"},
		{`{"email":"ann@example.com","groups":true}`, nil, "text or a list of texts"},
	} {
		var got claims
		require.NoError(t, json.Unmarshal([]byte(c.claims), &got))
		name, groups, err := o.principal(got)
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails, c.claims)
			continue
		}
		require.NoError(t, err, c.claims)
		require.Equal(t, "ann@example.com", name)
		require.Equal(t, c.groups, groups, c.claims)
	}
}

// An ID token for several clients, or with an authorized party, counts if it was issued to this client.
func TestIDTokensAreForThisClient(t *testing.T) {
	t.Parallel()
	o := &OIDC{config: OIDCConfig{ClientID: "us"}}
	for _, c := range []struct {
		audience []string
		party    string
		fails    bool
	}{
		{[]string{"us"}, ``, false},
		{[]string{"us"}, `"us"`, false},
		{[]string{"us", "us"}, ``, false},
		{[]string{"us", "them"}, `"us"`, false},
		{[]string{"us", "them"}, ``, true},
		{[]string{"us", "them"}, `"them"`, true},
		{[]string{"us"}, `"them"`, true},
		{[]string{"us"}, `""`, true},
		{[]string{"us"}, `null`, true},
		{[]string{"us"}, `["us"]`, true},
		{[]string{"us"}, `7`, true},
	} {
		got := claims{}
		if c.party != "" {
			got["azp"] = json.RawMessage(c.party)
		}
		err := o.issuedToUs(&oidc.IDToken{Audience: c.audience}, got)
		require.Equal(t, c.fails, err != nil, "%v %s: %v", c.audience, c.party, err)
	}
}

// A principal with the name of a group is not a member of the group, and a group with the name of a principal does not
// have the principal's rights.
func TestGroupNameIsNotMembership(t *testing.T) {
	t.Parallel()
	grants := []Grant{{MatchGroup: "ops-admins", Role: api.Admin}, {MatchName: "ann", Role: api.Operator}}
	for _, c := range []struct {
		name   string
		groups []string
		role   api.Role
	}{
		{"ops-admins", []string{"everyone"}, ""}, {"bob", []string{"ann"}, ""}, {"bob", []string{"ops-admins"}, api.Admin},
		{"ann", nil, api.Operator}, {"", []string{""}, ""}, {"*", []string{"*"}, ""},
	} {
		for _, kind := range []Kind{ByProxy, ByOIDC, ByCert} {
			p, ok := Granted(grants, kind, c.name, c.groups)
			require.Equal(t, c.role != "", ok, "%+v", c)
			require.ElementsMatch(t, c.role.Rights(), p.Rights, "%+v", c)
		}
	}
	p, ok := Granted([]Grant{{MatchName: "*", Role: api.Viewer}}, ByProxy, "anybody", nil)
	require.True(t, ok)
	require.Equal(t, api.Viewer.Rights(), p.Rights)
}

// Of a request with two headers of groups, the client may have sent one.
func TestProxyGroupsAreOneHeader(t *testing.T) {
	t.Parallel()
	proxy := &Proxy{
		UserHeader: "X-User", GroupsHeader: "X-Groups", From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
		Grants: []Grant{{MatchGroup: "ops", Role: api.Operator}, {MatchName: "ann", Role: api.Viewer}},
	}
	rights := func(groups ...string) []api.Right {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:80"
		r.Header["X-User"], r.Header["X-Groups"] = []string{"ann"}, groups
		p, _, err := proxy.Principal(r)
		require.NoError(t, err)
		return p.Rights
	}
	require.Equal(t, api.Viewer.Rights(), rights())
	require.Equal(t, api.Operator.Rights(), rights("dev, ops"))
	require.Empty(t, rights("ops", "dev"))
}
