package login

import (
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/api"
)

// Grant is what the principals of an outside login may do.
type Grant struct {
	// Match is the name of the principal, or of a group; "*" is everybody.
	Match string
	Role  api.Role
	// Rights are those beside the rights of the role.
	Rights []api.Right
	// Flows is the pattern of the flows that they may see; empty for all.
	Flows string
}

// Granted returns the principal of a name and its groups: the rights of all grants that match. Its flows are those of
// the first one.
func Granted(grants []Grant, kind Kind, name string, groups []string) (Principal, bool) {
	p := Principal{Name: name, Kind: kind}
	found := false
	for _, g := range grants {
		if g.Match != "*" && g.Match != name && !slices.Contains(groups, g.Match) {
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
	var groups []string
	if p.GroupsHeader != "" {
		for group := range strings.SplitSeq(r.Header.Get(p.GroupsHeader), ",") {
			groups = append(groups, strings.TrimSpace(group))
		}
	}
	found, ok := Granted(p.Grants, ByProxy, names[0], groups)
	if !ok {
		return Principal{}, true, ErrRefused
	}
	return found, true, nil
}

func (p *Proxy) trusts(address string) bool {
	from, err := netip.ParseAddrPort(address)
	return err == nil &&
		slices.ContainsFunc(p.From, func(prefix netip.Prefix) bool { return prefix.Contains(from.Addr().Unmap()) })
}
