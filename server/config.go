package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path"
	"slices"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// ErrInvalid matches every error about a Config or an address that cannot be used.
var ErrInvalid = errors.New("invalid server configuration")

// Config configures a server. Engine must be set; the zero values of the other fields make a server without logins,
// which listens on loopback addresses only.
type Config struct {
	// Engine is the engine whose runs are served. The server does not close it.
	Engine *runtime.Engine
	// Namespace is the namespace with which the engine was opened, for display and for tokens. Defaults to "default".
	Namespace string
	// EngineName names the engine for display, such as "valkey". Defaults to none.
	EngineName string
	// Version is the version of the program, for display. Defaults to none.
	Version string
	// Logger receives failures and accesses that were refused. Defaults to slog.Default().
	Logger *slog.Logger
	// ReadOnly refuses operations that change anything. Defaults to false.
	ReadOnly bool
	// NoConsole serves the API alone, without the pages of package console. Defaults to false.
	NoConsole bool

	// Tokens lets principals log in with the tokens that operation create-token makes. Defaults to false.
	Tokens bool
	// AdminToken is a token with all rights, to create the first others with. Defaults to none.
	AdminToken string
	// Certificates lets principals log in with client certificates, which TLSConfig must verify. Defaults to none.
	Certificates []Grant
	// Proxy lets a trusted proxy name the principal in a header. Defaults to none.
	Proxy *ProxyLogin
	// TLSConfig makes Run serve TLS. Defaults to nil, which serves plain HTTP.
	TLSConfig *tls.Config

	// Streams is how many streams may be open at a time, 1 to 100,000. Defaults to 1,000.
	Streams int
	// RequestsPerSecond bounds the requests of one principal, or of one address without logins; bursts may have twice
	// as many. Defaults to 1,000; a negative number is no bound.
	RequestsPerSecond float64
}

// Grant says what a principal of a certificate or proxy may do. A principal without a grant is refused.
type Grant struct {
	// Match is the name of the principal or of one of its groups; "*" matches everybody.
	Match string
	Role  api.Role
	// Rights are further rights beside those of the role.
	Rights []api.Right
	// Flows is a pattern, by the rules of path.Match, of the flows that the principal may see; empty for all.
	Flows string
}

// ProxyLogin is the login by headers of a trusted proxy.
type ProxyLogin struct {
	// UserHeader has the name of the principal. GroupsHeader, if set, has its groups with commas between them.
	UserHeader, GroupsHeader string
	// From are the networks of the proxy; the headers of other clients are ignored.
	From   []netip.Prefix
	Grants []Grant
}

// check returns all faults of the config.
func (c *Config) check() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if c.Engine == nil {
		fault("Engine is nil")
	}
	if c.Streams < 0 || c.Streams > 100_000 {
		fault("Streams must be 1 to 100,000, got: %d", c.Streams)
	}
	if len(c.AdminToken) > 0 && len(c.AdminToken) < 16 {
		fault("AdminToken must have at least 16 characters, got: %d", len(c.AdminToken))
	}
	if len(c.Certificates) > 0 && (c.TLSConfig == nil || c.TLSConfig.ClientCAs == nil) {
		fault("Certificates need a TLSConfig with ClientCAs")
	}
	checkGrants("Certificates", c.Certificates, fault)
	if p := c.Proxy; p != nil {
		if p.UserHeader == "" {
			fault("Proxy.UserHeader is empty")
		}
		if len(p.From) == 0 {
			fault("Proxy.From is empty: name the networks of the proxy")
		}
		if len(p.Grants) == 0 {
			fault("Proxy.Grants is empty: nobody could log in")
		}
		checkGrants("Proxy.Grants", p.Grants, fault)
	}
	return errors.Join(faults...)
}

func checkGrants(field string, grants []Grant, fault func(string, ...any)) {
	for i, g := range grants {
		if g.Match == "" {
			fault("%s[%d].Match is empty", field, i)
		}
		if g.Role.Rights() == nil && len(g.Rights) == 0 {
			fault("%s[%d].Role must be viewer, operator or admin, got: %q", field, i, g.Role)
		}
		for _, right := range g.Rights {
			if !slices.Contains(api.Rights(), right) {
				fault("%s[%d].Rights: %q is no right", field, i, right)
			}
		}
		if _, err := path.Match(g.Flows, ""); err != nil {
			fault("%s[%d].Flows must be a pattern such as billing-*, got: %q", field, i, g.Flows)
		}
	}
}

func grants(list []Grant) []login.Grant {
	out := make([]login.Grant, len(list))
	for i, g := range list {
		out[i] = login.Grant(g)
	}
	return out
}

// secured reports whether principals have to log in.
func (c *Config) secured() bool {
	return c.Tokens || c.AdminToken != "" || len(c.Certificates) > 0 || c.Proxy != nil
}
