package server

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// OIDCLogin is the login at an OpenID Connect provider. Browsers log in at /auth/login and get a session in an
// encrypted cookie, which administrators list and end; programs may send an ID token of the client as a bearer
// token.
type OIDCLogin struct {
	// Issuer is the address of the provider. ClientID and ClientSecret identify this server to it. The secret is empty
	// for a public client; PKCE is used with and without one.
	Issuer, ClientID, ClientSecret string
	// RedirectURL is the address of the callback as browsers see it: its path is Config.BasePath and /auth/callback.
	RedirectURL string
	// Scopes are requested in addition to openid. Defaults to profile and email.
	Scopes []string
	// NameClaim is the claim with the name of the principal, GroupsClaim the one with its groups, a text or a list.
	// They default to email, which must not be unverified, and groups.
	NameClaim, GroupsClaim string
	// Grants define the rights of principals, by name or group.
	Grants []Grant
	// SessionKey encrypts the cookies: at least 32 random bytes, the same ones for all servers at one address. Defaults
	// to random bytes, with which sessions end when the server does.
	SessionKey []byte
	// SessionLife is how long a login lasts, 1 minute to 30 days. Defaults to 8 hours. A change of the principal's
	// groups at the provider counts from the next login on.
	SessionLife time.Duration
	// HTTPClient sends requests to the provider. Defaults to http.DefaultClient.
	HTTPClient *http.Client
}

const callbackPath = "/auth/callback"

func (o *OIDCLogin) check(base string, fault func(string, ...any)) {
	for _, field := range []struct{ name, value string }{{"Issuer", o.Issuer}, {"RedirectURL", o.RedirectURL}} {
		u, err := url.Parse(field.value)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			fault("OIDC.%s must be an address such as https://host/path, got: %q", field.name, field.value)
		} else if field.name == "RedirectURL" && u.Path != base+callbackPath {
			fault("OIDC.RedirectURL must have the path %s, got: %q", base+callbackPath, u.Path)
		}
	}
	if o.ClientID == "" {
		fault("OIDC.ClientID is empty")
	}
	if len(o.SessionKey) > 0 && len(o.SessionKey) < 32 {
		fault("OIDC.SessionKey must have at least 32 bytes, got: %d", len(o.SessionKey))
	}
	if o.SessionLife != 0 && (o.SessionLife < time.Minute || o.SessionLife > 30*24*time.Hour) {
		fault("OIDC.SessionLife must be 1m to 720h, got: %s", o.SessionLife)
	}
	if len(o.Grants) == 0 {
		fault("OIDC.Grants is empty: nobody could log in")
	}
	checkGrants("OIDC.Grants", o.Grants, fault)
}

// method returns the login itself.
func (o *OIDCLogin) method(s *Config, store *serverstore.Store) (*login.OIDC, error) {
	key := slices.Clone(o.SessionKey)
	if len(key) == 0 {
		key = make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			return nil, err
		}
	}
	scopes := o.Scopes
	if scopes == nil {
		scopes = []string{"profile", "email"}
	}
	return login.NewOIDC(login.OIDCConfig{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret, RedirectURL: o.RedirectURL,
		Scopes: scopes, NameClaim: cmp.Or(o.NameClaim, "email"), GroupsClaim: cmp.Or(o.GroupsClaim, "groups"),
		SessionKey: key, SessionLife: cmp.Or(o.SessionLife, 8*time.Hour), Grants: grants(o.Grants),
		HTTPClient: o.HTTPClient, Logger: s.Logger,
	}, s.BasePath+"/", store)
}
