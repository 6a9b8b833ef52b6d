package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// loginFile is the form of a file of logins.
type loginFile struct {
	OIDC         *oidcFile   `json:"oidc"`
	Certificates []grantFile `json:"certificates"`
	Proxy        *proxyFile  `json:"proxy"`
}

type oidcFile struct {
	Issuer           string              `json:"issuer"`
	ClientID         string              `json:"client_id"`
	ClientSecretFile string              `json:"client_secret_file"`
	RedirectURL      string              `json:"redirect_url"`
	Scopes           []string            `json:"scopes"`
	NameClaim        string              `json:"name_claim"`
	GroupsClaim      string              `json:"groups_claim"`
	SessionKeyFile   string              `json:"session_key_file"`
	SessionLife      fabrictype.Duration `json:"session_life"`
	Grants           []grantFile         `json:"grants"`
}

type proxyFile struct {
	UserHeader   string         `json:"user_header"`
	GroupsHeader string         `json:"groups_header"`
	From         []netip.Prefix `json:"from"`
	Grants       []grantFile    `json:"grants"`
}

type grantFile struct {
	MatchName  string      `json:"match_name"`
	MatchGroup string      `json:"match_group"`
	Role       api.Role    `json:"role"`
	Rights     []api.Right `json:"rights"`
	Flows      string      `json:"flows"`
}

// ReadLogins sets OIDC, Certificates and Proxy to the content of a JSON file, with secrets in separate files that it
// names. The error matches ErrInvalid for a file of another form; New checks the values of the fields.
func (c *Config) ReadLogins(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file loginFile
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return fmt.Errorf("%w: logins in %s: %w", ErrInvalid, path, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("%w: logins in %s: something follows the object", ErrInvalid, path)
	}
	c.Certificates = grantsOf(file.Certificates)
	if p := file.Proxy; p != nil {
		c.Proxy = &ProxyLogin{
			UserHeader: p.UserHeader, GroupsHeader: p.GroupsHeader, From: p.From, Grants: grantsOf(p.Grants),
		}
	}
	if o := file.OIDC; o != nil {
		c.OIDC = &OIDCLogin{
			Issuer: o.Issuer, ClientID: o.ClientID, RedirectURL: o.RedirectURL, Scopes: o.Scopes,
			NameClaim: o.NameClaim, GroupsClaim: o.GroupsClaim, SessionLife: o.SessionLife.Duration,
			Grants: grantsOf(o.Grants),
		}
		if c.OIDC.ClientSecret, err = secretIn(o.ClientSecretFile); err != nil {
			return err
		}
		key, err := secretIn(o.SessionKeyFile)
		if err != nil {
			return err
		}
		c.OIDC.SessionKey = []byte(key)
	}
	return nil
}

func grantsOf(list []grantFile) []Grant {
	var out []Grant
	for _, g := range list {
		out = append(out, Grant(g))
	}
	return out
}

// secretIn reads a secret without the white space around it; none without a name of a file.
func secretIn(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
