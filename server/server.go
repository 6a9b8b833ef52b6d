package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/console"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/route"
	"github.com/flowfabric/flowfabric-go/server/internal/service"
)

// Server serves the API of one engine. It is safe for concurrent use.
type Server struct {
	config   Config
	service  *service.Service
	router   *route.Router
	handler  http.Handler
	document []byte
	stop     context.CancelFunc
}

// New returns a server. The error joins all faults of the config and matches ErrInvalid.
func New(config Config) (*Server, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.Namespace = cmp.Or(config.Namespace, "default")
	config.Streams = cmp.Or(config.Streams, 1000)
	config.RequestsPerSecond = cmp.Or(config.RequestsPerSecond, 1000)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	operations, err := service.New(config.Engine, api.ServerInfo{
		Version: config.Version, Namespace: config.Namespace, Engine: config.EngineName, ReadOnly: config.ReadOnly,
	})
	if err != nil {
		return nil, err
	}
	stopping, stop := context.WithCancel(context.Background())
	mux := http.NewServeMux()
	s := &Server{config: config, service: operations, stop: stop}
	s.router = route.New(stopping, mux, operations, route.Config{
		Version: config.Version, Logger: config.Logger, ReadOnly: config.ReadOnly, Streams: config.Streams,
	})
	if s.document, err = s.router.OpenAPI(); err != nil {
		stop()
		operations.Close()
		return nil, err
	}
	s.handler = s.routes(mux)
	return s, nil
}

// Close ends all streams. The handler may be called afterwards, but its streams end at once.
func (s *Server) Close() {
	s.stop()
	s.service.Close()
}

// OpenAPI returns the OpenAPI 3.1 document of the operations, in JSON.
func (s *Server) OpenAPI() []byte { return s.document }

// Handler returns the handler of everything that the server serves, for programs with a listener of their own. Without
// logins it answers whoever can reach it, so do not let others than this machine reach it.
func (s *Server) Handler() http.Handler { return s.handler }

// routes adds what is not an operation, and what surrounds operations.
func (s *Server) routes(operations http.Handler) http.Handler {
	guarded := s.identify(s.limitRate(s.idempotent(operations)))
	mux := http.NewServeMux()
	mux.Handle(api.Prefix+"/", http.NewCrossOriginProtection().Handler(guarded))
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(s.document)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ok"}` + "\n"))
	})
	mux.HandleFunc("GET /readyz", s.ready)
	pages := console.Handler(console.Config{})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if console.Has(r) && !s.config.NoConsole {
			pages.ServeHTTP(w, r)
			return
		}
		route.WriteProblem(w, route.NewProblem(http.StatusNotFound, "not_found", "nothing is at "+r.URL.Path, false))
	})
	return s.observe(mux)
}

// ready answers whether the engine does.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	w.Header().Set("Content-Type", "application/json")
	if err := s.config.Engine.Check(ctx); err != nil {
		s.config.Logger.WarnContext(ctx, "the server is not ready", "event", "server.not_ready", "error", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(
			[]byte(
				`{"ready":false,"reason":"the engine does not answer or does not fit; the log has the cause"}` + "\n",
			),
		)
		return
	}
	_, _ = w.Write([]byte(`{"ready":true}` + "\n"))
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// stopTimeout is how long requests may go on when the server stops.
	stopTimeout = 15 * time.Second
)

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

// Run listens on the address and serves until the context ends; then requests have 15 s to end. It returns nil after
// that, the errors of Listen, or why it could not serve.
func (s *Server) Run(ctx context.Context, address string) error {
	listener, err := s.Listen(address)
	if err != nil {
		return err
	}
	return s.Serve(ctx, listener)
}

// Serve is Run with a listener, which it closes.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.handler, TLSConfig: s.config.TLSConfig, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(s.stop)
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
	stopped, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
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
