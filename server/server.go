package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/console"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/netbound"
	"github.com/flowfabric/flowfabric-go/server/internal/contract"
	"github.com/flowfabric/flowfabric-go/server/internal/inbound"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/route"
	"github.com/flowfabric/flowfabric-go/server/internal/service"
)

// Server serves the API of one engine. It is safe for concurrent use.
type Server struct {
	config  Config
	service *service.Service
	router  *route.Router
	handler http.Handler
	// operations is the handler of operations alone, for requests whose principal is known.
	operations http.Handler
	document   []byte
	guard      *login.Guard
	rates      *limiters
	// stopping ends when the server stops, which stop makes it do.
	stopping context.Context
	stop     context.CancelFunc
	oidc     *login.OIDC // nil without
	// unmeasure ends the measuring of lanes.
	unmeasure func()
	keepers   keeperState
	sampling  sync.WaitGroup
}

// New returns a server. The error joins all faults of the config and matches ErrInvalid.
func New(config Config) (*Server, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.Namespace = cmp.Or(config.Namespace, "default")
	config.Streams = cmp.Or(config.Streams, 1000)
	config.StreamsPerPrincipal = cmp.Or(config.StreamsPerPrincipal, max(1, config.Streams/10))
	config.RequestsPerSecond = cmp.Or(config.RequestsPerSecond, 1000)
	config.SampleEvery = cmp.Or(config.SampleEvery, 15*time.Second)
	config.Timeouts = config.Timeouts.withDefaults()
	config.Logger = cmp.Or(config.Logger, slog.Default())
	operations, err := service.New(config.Engine, api.ServerInfo{
		Version: config.Version, Library: lualib.Build(), Protocol: lualib.Protocol,
		Namespace: config.Namespace, Engine: config.EngineName, ReadOnly: config.ReadOnly,
		Heartbeat: fabrictype.Duration{Duration: config.Timeouts.Heartbeat},
	}, service.Config{Logger: config.Logger, PushTo: config.PushTo, SampleEvery: config.SampleEvery})
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: config, service: operations, guard: login.NewGuard(),
		rates: &limiters{byName: map[string]*rate.Limiter{}, limit: rate.Limit(config.RequestsPerSecond)},
	}
	if config.OIDC != nil {
		if s.oidc, err = config.OIDC.method(&s.config, operations.Store()); err != nil {
			operations.Close()
			return nil, err
		}
	}
	instruments, err := s.measure()
	if err != nil {
		operations.Close()
		return nil, err
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	s.router = route.New(s.stopping, mux, operations, route.Config{
		Version: config.Version, Logger: config.Logger, ReadOnly: config.ReadOnly,
		Streams: config.Streams, StreamsEach: config.StreamsPerPrincipal,
		Ask:      operations.Ask,
		Measured: instruments, Heartbeat: config.Timeouts.Heartbeat, Body: config.Timeouts.Body,
	})
	if s.document, err = s.router.OpenAPI(); err != nil {
		s.Close()
		return nil, err
	}
	contracted, err := s.contractRoutes(s.stopping)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.handler = s.routes(mux, contracted)
	s.sampling.Go(func() { operations.Sample(s.stopping) })
	s.sampling.Go(func() { s.guard.Run(s.stopping) })
	return s, nil
}

// Close ends all streams. The handler may be called afterwards, but its streams end at once.
func (s *Server) Close() {
	s.stop()
	s.sampling.Wait()
	s.unmeasure()
	s.service.Close()
}

// OpenAPI returns the OpenAPI 3.1 document of the operations, in JSON.
func (s *Server) OpenAPI() []byte { return s.document }

// Handler returns the handler of everything that the server serves, for programs with their own listener. Without
// logins it answers every client that reaches it by an address, localhost or Config.AllowedHosts, so do not let others
// than this machine reach it. The program bounds the connections of its listener, and the times for headers and idle
// connections; the handler bounds the rest.
func (s *Server) Handler() http.Handler { return s.handler }

// routes adds the routes outside the operations, and the handlers around operations.
func (s *Server) routes(operations *http.ServeMux, contracted *contract.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(denyCrossOrigin))
	s.operations = withProblems(operations)
	mux := http.NewServeMux()
	mux.HandleFunc(httpapi.Prefix, notFound)
	mux.Handle(httpapi.Prefix+"/", crossOrigin.Handler(s.identify(s.limitRate(s.operations))))
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(s.document)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ok"}` + "\n"))
	})
	mux.HandleFunc("GET /readyz", s.ready)
	if s.oidc != nil {
		mux.Handle("GET /auth/login", s.limitRate(http.HandlerFunc(s.oidc.Begin)))
		mux.Handle("GET "+callbackPath, s.limitRate(http.HandlerFunc(s.oidc.End)))
		mux.Handle("POST /auth/logout", crossOrigin.Handler(http.HandlerFunc(s.oidc.Logout)))
	}
	if !s.config.Contract.Off {
		s.mountContract(mux, contracted)
	}
	if s.config.Metrics != nil {
		mux.Handle("GET /metrics", s.identify(s.limitRate(viewersOnly(s.config.Metrics))))
	}
	switch {
	case s.config.Home != nil:
		mux.Handle("/", s.config.Home)
		return s.around(mux)
	case s.config.NoConsole:
		mux.HandleFunc("GET /{$}", s.home)
	default:
		pages := console.Handler(s.consoleConfig())
		for _, pattern := range console.Patterns() {
			mux.Handle("GET "+pattern, pages)
		}
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			if console.AsksForPage(r) && !strings.HasPrefix(r.URL.Path, "/api/") && !strings.HasPrefix(r.URL.Path, "/v1/") {
				pages.ServeHTTP(w, r)
				return
			}
			notFound(w, r)
		})
		return s.around(mux)
	}
	mux.HandleFunc("/", notFound)
	return s.around(mux)
}

// around adds the handlers that every request passes before the routes.
func (s *Server) around(routes http.Handler) http.Handler {
	served := underBase(s.config.BasePath, cleanOnly(s.allowHosts(routes)))
	return s.observe(inbound.Handler(s.stopping, s.config.Timeouts.Body, served))
}

// cleanOnly answers status 404 for paths with empty parts, "." or "..". A mux would answer with a redirection that
// quotes the request, with any bytes that it has.
func cleanOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.EscapedPath()
		if clean := path.Clean("/" + asked); asked != clean && asked != clean+"/" && asked != "" {
			notFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// consoleConfig gives the console the address of the login.
func (s *Server) consoleConfig() console.Config {
	if s.oidc == nil {
		return console.Config{}
	}
	return console.Config{Login: "auth/login"}
}

// underBase serves a handler also under the path at which a proxy shows it.
func underBase(base string, next http.Handler) http.Handler {
	if base == "" {
		return next
	}
	stripped := http.StripPrefix(base, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == base:
			http.Redirect(w, r, base+"/", http.StatusMovedPermanently)
		case strings.HasPrefix(r.URL.Path, base+"/"):
			stripped.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// viewersOnly refuses principals who may not see data of all flows.
func viewersOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refusal := login.From(r.Context()).Refuse(login.Demand{Name: "metrics", Right: api.View, Reads: true}, false)
		if refusal != nil {
			route.WriteProblem(w, route.NewProblem(refusal.Status, refusal.Code, refusal.Detail, false))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Listen opens the listener of an address such as "localhost:8080". Without logins, the address must be a loopback
// address; otherwise the error matches ErrInvalid.
func (s *Server) Listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if !s.config.secured() && !isLoopback(listener.Addr()) {
		_ = listener.Close()
		return nil, fmt.Errorf(
			"%w: without logins the server listens on loopback addresses only, got: %q; configure a login",
			ErrInvalid,
			address,
		)
	}
	return listener, nil
}

func isLoopback(address net.Addr) bool {
	parsed, err := netip.ParseAddrPort(address.String())
	return err == nil && parsed.Addr().Unmap().IsLoopback()
}

// Run listens on the address and serves until the context ends; then requests have Timeouts.Stop to end. It returns nil
// after that, the errors of Listen, or why it could not serve.
func (s *Server) Run(ctx context.Context, address string) error {
	listener, err := s.Listen(address)
	if err != nil {
		return err
	}
	return s.Serve(ctx, listener)
}

// Serve is Run with a listener, which it closes.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	times := s.config.Timeouts
	listener = netbound.Bound(listener, netbound.Config{
		Most: s.config.Connections, PerAddress: s.config.ConnectionsPerAddress, Logger: s.config.Logger,
	})
	server := &http.Server{
		Handler: s.handler, TLSConfig: s.config.TLSConfig, ReadHeaderTimeout: times.Header,
		IdleTimeout: times.Idle, ConnContext: netbound.Context,
		MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(s.stop)
	server.RegisterOnShutdown(s.service.StopTasks)
	failed := make(chan error, 1)
	go func() {
		if s.config.TLSConfig != nil {
			failed <- server.ServeTLS(listener, "", "")
		} else {
			failed <- server.Serve(listener)
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stopped, cancel := context.WithTimeout(context.WithoutCancel(ctx), times.Stop)
	defer cancel()
	err := server.Shutdown(stopped)
	if err != nil {
		_ = server.Close()
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		return served
	}
	return err
}

// methods returns the logins in the order in which they are tried.
func (s *Server) methods() []login.Method {
	var methods []login.Method
	if s.config.AdminToken != "" {
		methods = append(methods, login.NewSecret(s.config.AdminToken))
	}
	if s.config.Tokens {
		methods = append(methods, login.NewTokens(s.service.Store()))
	}
	if s.oidc != nil {
		methods = append(methods, s.oidc)
	}
	if len(s.config.Certificates) > 0 {
		methods = append(methods, &login.Certificates{Grants: grants(s.config.Certificates)})
	}
	if p := s.config.Proxy; p != nil {
		methods = append(methods, &login.Proxy{
			UserHeader: p.UserHeader, GroupsHeader: p.GroupsHeader, From: p.From, Grants: grants(p.Grants),
		})
	}
	return methods
}

const homeStyle = `body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}` +
	`code{background:#eee;padding:0 .3em}a{color:#0645ad}`

// homePage has links relative to the page, so that they lead to the server under any path.
var homePage = template.Must(template.New("home").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>FlowFabric</title><style>{{.Style}}</style></head><body>
<h1>FlowFabric</h1>
<p>Namespace <code>{{.Namespace}}</code>{{with .Engine}}, engine {{.}}{{end}}{{with .Version}}, version {{.}}{{end}}
{{- if .ReadOnly}}, read-only{{end}}.</p>
<ul>
{{- if .OIDC}}
<li><a href="auth/login">Log in</a></li>{{end}}
<li><a href="api/v1/runs">Runs</a>, <a href="api/v1/flows">flows</a>, <a href="api/v1/waits">waits</a>,
<a href="api/v1/lanes">lanes</a>, <a href="api/v1/inspection">findings</a></li>
<li><a href="openapi.json">OpenAPI document</a></li>
<li><a href="healthz">Health</a>, <a href="readyz">readiness</a>{{if .Metrics}},
<a href="metrics">metrics</a>{{end}}</li>
</ul></body></html>
`))

// home is a page for those who open the address of a server in a browser.
func (s *Server) home(w http.ResponseWriter, _ *http.Request) {
	sum := sha256.Sum256([]byte(homeStyle))
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; "+
		"style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	_ = homePage.Execute(w, map[string]any{
		"Style": template.CSS(homeStyle), "Namespace": s.config.Namespace, "Engine": s.config.EngineName,
		"Version": s.config.Version, "ReadOnly": s.config.ReadOnly, "OIDC": s.oidc != nil,
		"Metrics": s.config.Metrics != nil,
	})
}
