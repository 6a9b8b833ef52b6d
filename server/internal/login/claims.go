package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
)

// claims are the claims of a provider about a principal, by name. They are decoded strictly: if a claim that counts
// has another type than it must have, the login is refused, since this program does not understand the claim.
type claims map[string]json.RawMessage

// has reports whether the claim is given. One that is null is not.
func (c claims) has(name string) bool { return len(c[name]) > 0 && string(c[name]) != "null" }

// text returns a claim that is a text.
func (c claims) text(name string) (string, error) {
	if !c.has(name) {
		return "", fmt.Errorf("the principal has no claim %q", name)
	}
	var text string
	if err := json.Unmarshal(c[name], &text); err != nil {
		return "", fmt.Errorf("the claim %q must be a text, got: %.40s", name, c[name])
	}
	if text == "" {
		return "", fmt.Errorf("the claim %q is empty", name)
	}
	return text, nil
}

// texts returns a claim that is a text or a list of texts; none if it is not given.
func (c claims) texts(name string) ([]string, error) {
	if !c.has(name) {
		return nil, nil
	}
	var list []*string // a pointer, so that null is rejected
	if json.Unmarshal(c[name], &list) != nil {
		one, err := c.text(name)
		if err != nil {
			return nil, fmt.Errorf("the claim %q must be a text or a list of texts, got: %.40s", name, c[name])
		}
		return []string{one}, nil
	}
	out := make([]string, len(list))
	for i, text := range list {
		if text == nil {
			return nil, fmt.Errorf("the claim %q must be a list of texts, got: %.40s", name, c[name])
		}
		out[i] = *text
	}
	return out, nil
}

// claimsOf returns the claims of an ID token whose signature, issuer, audience and times are right.
func (o *OIDC) claimsOf(token *oidc.IDToken) (claims, error) {
	c := claims{}
	if err := token.Claims(&c); err != nil {
		return nil, err
	}
	return c, o.issuedToUs(token, c)
}

// issuedToUs refuses a token for several audiences, or with an authorized party, unless it was issued to this client.
func (o *OIDC) issuedToUs(token *oidc.IDToken, c claims) error {
	others := slices.ContainsFunc(token.Audience, func(of string) bool { return of != o.config.ClientID })
	if _, given := c["azp"]; !given && !others {
		return nil
	}
	switch party, err := c.text("azp"); {
	case err != nil:
		return fmt.Errorf("the ID token does not say to which client it was issued: %w", err)
	case party != o.config.ClientID:
		return fmt.Errorf("the ID token was issued to another client: %.100q", party)
	}
	return nil
}

// principal returns the name and the groups of a principal by its claims.
func (o *OIDC) principal(c claims) (name string, groups []string, err error) {
	if name, err = c.text(o.config.NameClaim); err != nil {
		return "", nil, err
	}
	if o.config.NameClaim == "email" {
		if err := c.verifiedEmail(); err != nil {
			return "", nil, err
		}
	}
	groups, err = c.texts(o.config.GroupsClaim)
	return name, groups, err
}

// verifiedEmail refuses an address if the provider sends email_verified with any value but true: anybody can claim an
// address. Providers that do not send it verify all addresses.
func (c claims) verifiedEmail() error {
	said, given := c["email_verified"]
	if given && string(said) != "true" {
		return errors.New("the provider has not verified the e-mail address")
	}
	return nil
}
