package server

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/inbound"
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
	// OIDC lets principals log in at an OpenID Connect provider. Defaults to none.
	OIDC *OIDCLogin
	// Proxy lets a trusted proxy name the principal in a header. Defaults to none.
	Proxy *ProxyLogin
	// TLSConfig makes Run serve TLS. Defaults to nil, which serves plain HTTP.
	TLSConfig *tls.Config

	// AllowedHosts are the names under which clients reach the server, such as "flows.example.com"; "*.example.com"
	// allows all names below one, and "*" all. Requests to another host than these, localhost, a name below it or an
	// address are refused, except probes. Defaults to none; servers with a login then answer for all hosts. Without a
	// login, never allow a name that others can direct to an address of their choice: its pages have all rights.
	AllowedHosts []string
	// BasePath is the path under which a proxy shows the server, such as "/flowfabric"; the proxy may pass it on or
	// remove it. Defaults to none.
	BasePath string
	// Home serves all paths that are neither operations nor other parts of the server, instead of the console.
	// Defaults to the console or, with NoConsole, to a page with links.
	Home http.Handler
	// Metrics serves /metrics to principals with the right to view, those bound to some flows excepted. Defaults to
	// none.
	Metrics http.Handler
	// MeterProvider measures the requests. Defaults to none.
	MeterProvider metric.MeterProvider
	// ReportLanes makes the server measure the lanes of the engine, as keepers do: set it where no keeper of this
	// program does. It needs MeterProvider. Defaults to false.
	ReportLanes bool

	// SampleEvery is the time between two samples of lanes, budgets and the lag of keepers, of which the server keeps
	// the last hour in memory. Reading them takes at most a fiftieth of the time: if the engine is slow, samples are
	// rarer. Defaults to 15 s; at least 100 ms.
	SampleEvery time.Duration
	// Streams is how many streams may be open at a time, 1 to 100,000, and StreamsPerPrincipal how many of them one
	// principal may have. They default to 1,000 and to a tenth of Streams, at least 1. Without logins there is one
	// principal, and Streams alone is a bound.
	Streams, StreamsPerPrincipal int
	// Connections is how many connections Serve and Run have at a time, ConnectionsPerAddress how many of them one
	// address has. At a bound, a connection that waits for its client is closed for a new one. They default to 10,000,
	// but at most half of the descriptors of the process, and to half of Connections.
	Connections, ConnectionsPerAddress int
	// Timeouts bound the time that clients may take. Each defaults to a value that suits public servers.
	Timeouts Timeouts
	// RequestsPerSecond bounds the requests of one principal, or of one address without logins; bursts may have twice
	// as many, but at least one. Defaults to 1,000; a negative number removes the bound.
	RequestsPerSecond float64

	// PushTo are the origins, such as "https://workers.example.com", to which tasks may be sent for workers that
	// register a URL there. Defaults to none: nothing is sent.
	PushTo []string
	// Contract configures the routes under /v1.
	Contract ContractConfig
}

// Timeouts are the times that Serve and Run grant clients.
type Timeouts struct {
	// Header is the time to send the header of a request, Body the time after it in which the body has to arrive,
	// whether it is read or not. Each defaults to 10 s.
	Header, Body time.Duration
	// Idle is how long a connection without a request is kept. Defaults to 2 minutes.
	Idle time.Duration
	// Stop is how long requests may continue when the server stops. Defaults to 15 s.
	Stop time.Duration
	// Heartbeat is the time between two comments that keep a stream alive. Defaults to 15 s.
	Heartbeat time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	return Timeouts{
		Header: cmp.Or(t.Header, 10*time.Second), Body: cmp.Or(t.Body, inbound.Timeout),
		Idle: cmp.Or(t.Idle, 2*time.Minute),
		Stop: cmp.Or(t.Stop, 15*time.Second), Heartbeat: cmp.Or(t.Heartbeat, 15*time.Second),
	}
}

// Grant contains the rights of a principal of a certificate or proxy. A principal without a grant is refused.
type Grant struct {
	// MatchName is the name of a principal, or "*" for everybody; MatchGroup is the name of a group that the principal
	// is in. One of them must be set. They are separate fields so that a principal cannot get the rights of a group by
	// choosing its name.
	MatchName, MatchGroup string
	Role                  api.Role
	// Rights are further rights in addition to the rights of the role.
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
	if c.StreamsPerPrincipal < 0 {
		fault("StreamsPerPrincipal must not be negative, got: %d", c.StreamsPerPrincipal)
	}
	if c.Connections < 0 || c.ConnectionsPerAddress < 0 {
		fault("Connections and ConnectionsPerAddress must not be negative, got: %d and %d", c.Connections,
			c.ConnectionsPerAddress)
	}
	if c.SampleEvery != 0 && c.SampleEvery < 100*time.Millisecond {
		fault("SampleEvery must be at least 100ms, got: %v", c.SampleEvery)
	}
	if len(c.AdminToken) > 0 && len(c.AdminToken) < 16 {
		fault("AdminToken must have at least 16 characters, got: %d", len(c.AdminToken))
	}
	if len(c.Certificates) > 0 && (c.TLSConfig == nil || c.TLSConfig.ClientCAs == nil) {
		fault("Certificates need a TLSConfig with ClientCAs")
	}
	c.Contract.check(c.secured(), fault)
	for i, origin := range c.PushTo {
		if err := checkOrigin(origin); err != nil {
			fault("PushTo[%d]: %w", i, err)
		}
	}
	for i, host := range c.AllowedHosts {
		if err := checkHost(host); err != nil {
			fault("AllowedHosts[%d]: %w", i, err)
		}
	}
	checkGrants("Certificates", c.Certificates, fault)
	if t := c.Timeouts; min(t.Header, t.Body, t.Idle, t.Stop, t.Heartbeat) < 0 {
		fault("Timeouts must not be negative, got: %+v", t)
	}
	if c.BasePath != "" && (path.Clean(c.BasePath) != c.BasePath || c.BasePath == "/" || c.BasePath[0] != '/') {
		fault("BasePath must be a path such as /flowfabric, got: %q", c.BasePath)
	}
	if c.ReportLanes && c.MeterProvider == nil {
		fault("ReportLanes needs MeterProvider")
	}
	if c.OIDC != nil {
		c.OIDC.check(c.BasePath, fault)
	}
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
		switch {
		case g.MatchName == "" && g.MatchGroup == "":
			fault("%s[%d]: set MatchName (match_name) or MatchGroup (match_group)", field, i)
		case g.MatchName != "" && g.MatchGroup != "":
			fault("%s[%d]: set MatchName or MatchGroup, not both, got: %q and %q", field, i, g.MatchName, g.MatchGroup)
		case g.MatchGroup == "*":
			fault("%s[%d].MatchGroup must be the name of a group; everybody is MatchName *", field, i)
		}
		if g.Role.Rights() == nil && (g.Role != "" || len(g.Rights) == 0) {
			fault("%s[%d].Role must be viewer, operator, admin or worker, got: %q", field, i, g.Role)
		}
		for _, right := range g.Rights {
			if !slices.Contains(httpapi.Rights(), right) {
				fault("%s[%d].Rights: %q is not a right", field, i, right)
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
	return c.Tokens || c.AdminToken != "" || len(c.Certificates) > 0 || c.OIDC != nil ||
		c.Proxy != nil
}
