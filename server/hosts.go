package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/server/internal/route"
)

// anyHost allows all hosts.
const anyHost = "*"

// checkHost returns an error unless name is the name of a host, with or without "*." for all names below it.
func checkHost(name string) error {
	host := strings.TrimPrefix(name, "*.")
	if name == anyHost || host != "" && !strings.ContainsAny(host, "*/:@ []") && !strings.HasPrefix(host, ".") {
		return nil
	}
	return fmt.Errorf("must be a name such as flows.example.com or *.example.com, without a port, or *; got: %q", name)
}

// allowHosts refuses requests to hosts that the config does not allow. Browsers let the pages of a host read all
// replies of that host, and the owner of its name decides to which address it leads: without this check, a page on the
// Internet whose name leads to a loopback address would act with all rights of a server without logins.
func (s *Server) allowHosts(next http.Handler) http.Handler {
	allowed := s.config.AllowedHosts
	if s.config.secured() && len(allowed) == 0 || slices.Contains(allowed, anyHost) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if probe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"; !probe && !hostAllowed(r.Host, allowed) {
			route.WriteProblem(w, route.NewProblem(http.StatusForbidden, "host_not_allowed", fmt.Sprintf(
				"the server does not answer for the host %q; if its name is yours, allow it with --allowed-hosts, or "+
					"AllowedHosts of server.Config", r.Host), false))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostAllowed reports whether the host of a request, with or without a port, is an address, localhost or a name below
// it, or one of the names. A browser takes addresses as they are, and no request of a browser is without a host.
func hostAllowed(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "" {
		return true
	}
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return true
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	matches := func(name string) bool {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if below, ok := strings.CutPrefix(name, "*"); ok {
			return strings.HasSuffix(host, below)
		}
		return host == name
	}
	return matches("localhost") || matches("*.localhost") || slices.ContainsFunc(names, matches)
}
