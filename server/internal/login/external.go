package login

import (
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
)

// Grant contains the rights of the principals of an outside login.
type Grant struct {
	// MatchName is the name of a principal, or "*" for everybody; MatchGroup is the name of a group. One of them is
	// set: the name of a principal never matches the name of a group, since people choose their names at many
	// providers.
	MatchName, MatchGroup string
	Role                  api.Role
	// Rights are further rights in addition to the rights of the role.
	Rights []api.Right
	// Flows is the pattern of the flows that they may see; empty for all.
	Flows string
}

// matches reports whether the grant is for a principal of that name and groups.
func (g *Grant) matches(name string, groups []string) bool {
	if g.MatchGroup != "" {
		return slices.Contains(groups, g.MatchGroup)
	}
	return g.MatchName == "*" || g.MatchName == name
}

// Granted returns the principal of a name and its groups, with the rights of all grants that match and the flows of
// the first one.
func Granted(grants []Grant, kind Kind, name string, groups []string) (Principal, bool) {
	p := Principal{Name: name, Kind: kind, Groups: groups}
	found := false
	for _, g := range grants {
		if !g.matches(name, groups) {
			continue
		}
		if !found {
			p.Flows = g.Flows
		} else if g.Flows != p.Flows {
			continue // the rights of a grant are for its flows alone
		}
		found = true
		for _, right := range append(g.Role.Rights(), g.Rights...) {
			if !p.May(right) {
				p.Rights = append(p.Rights, right)
			}
		}
	}
	return p, found
}

// Certificates is the login by client certificates, which the TLS configuration of the listener has verified.
type Certificates struct{ Grants []Grant }

// Principal implements Method. The name is the first one of: e-mail address, URI, DNS name, common name.
func (c *Certificates) Principal(r *http.Request) (Principal, bool, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Principal{}, false, nil
	}
	cert := r.TLS.VerifiedChains[0][0]
	if time.Now().After(cert.NotAfter) { // the connection has outlasted it
		return Principal{}, true, ErrRefused
	}
	p, ok := Granted(c.Grants, ByCert, certificateName(cert), cert.Subject.OrganizationalUnit)
	if !ok {
		return Principal{}, true, ErrRefused
	}
	return p, true, nil
}

func certificateName(cert *x509.Certificate) string {
	switch {
	case len(cert.EmailAddresses) > 0:
		return cert.EmailAddresses[0]
	case len(cert.URIs) > 0:
		return cert.URIs[0].String()
	case len(cert.DNSNames) > 0:
		return cert.DNSNames[0]
	default:
		return cert.Subject.CommonName
	}
}

// Proxy is the login by headers that a trusted proxy sets.
type Proxy struct {
	// UserHeader has the name, GroupsHeader the groups with commas between them.
	UserHeader, GroupsHeader string
	// From are the addresses of the proxy. Headers of others are ignored.
	From   []netip.Prefix
	Grants []Grant
}

// Principal implements Method.
func (p *Proxy) Principal(r *http.Request) (Principal, bool, error) {
	names := r.Header.Values(p.UserHeader)
	if len(names) != 1 || names[0] == "" || !p.trusts(r.RemoteAddr) {
		return Principal{}, false, nil
	}
	groups, ok := p.groups(r)
	if !ok {
		return Principal{}, false, nil
	}
	found, ok := Granted(p.Grants, ByProxy, names[0], groups)
	if !ok {
		return Principal{}, true, ErrRefused
	}
	return found, true, nil
}

// groups returns the groups of a request. It reports false for one with several headers of groups: the client may have
// sent one of them.
func (p *Proxy) groups(r *http.Request) (groups []string, ok bool) {
	if p.GroupsHeader == "" {
		return nil, true
	}
	headers := r.Header.Values(p.GroupsHeader)
	if len(headers) == 0 {
		return nil, true
	}
	for group := range strings.SplitSeq(headers[0], ",") {
		groups = append(groups, strings.TrimSpace(group))
	}
	return groups, len(headers) == 1
}

func (p *Proxy) trusts(address string) bool {
	from, err := netip.ParseAddrPort(address)
	return err == nil &&
		slices.ContainsFunc(p.From, func(prefix netip.Prefix) bool { return prefix.Contains(from.Addr().Unmap()) })
}
