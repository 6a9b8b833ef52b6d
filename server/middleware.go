package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/route"
)

// identify finds the principal of a request. One with credentials that are not valid is refused; one without any has no
// rights, unless the server has no logins. The context of the request ends with the credentials.
func (s *Server) identify(next http.Handler) http.Handler {
	methods := s.methods()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.principalOf(r, methods)
		if errors.Is(err, login.ErrRefused) {
			if s.tooOften(w, addressOf(r)) {
				return
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
			route.WriteProblem(w, route.NewProblem(http.StatusUnauthorized, "unauthorized", err.Error(), false))
			return
		}
		if err != nil {
			p, _ := route.ProblemOf(err)
			route.WriteProblem(w, p)
			return
		}
		if who.Kind == login.None || who.Name == "" {
			next.ServeHTTP(w, r.WithContext(login.With(r.Context(), who)))
			return
		}
		sent := &http.Request{Header: r.Header, RemoteAddr: r.RemoteAddr, TLS: r.TLS}
		ctx, done := s.guard.Begin(r.Context(), who, func(ctx context.Context) (login.Principal, error) {
			now, err := s.principalOf(sent.WithContext(ctx), methods)
			if err == nil && now.Name == "" {
				err = login.ErrRefused // a session that has expired is none
			}
			return now, err
		})
		defer done()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// principalOf returns the principal of a request; one without a name if it has no credentials. The error matches
// login.ErrRefused for credentials that are not valid.
func (s *Server) principalOf(r *http.Request, methods []login.Method) (login.Principal, error) {
	for _, method := range methods {
		if found, ok, err := method.Principal(r); ok || err != nil {
			return found, err
		}
	}
	switch {
	case !s.config.secured():
		return login.Anonymous(), nil
	case bearerSent(r):
		return login.Principal{}, login.ErrRefused
	}
	return login.Principal{}, nil
}

func bearerSent(r *http.Request) bool { return r.Header.Get("Authorization") != "" }

// limiters has the rate limiter of each principal or address that was seen lately.
type limiters struct {
	mu      sync.Mutex
	limit   rate.Limit
	byName  map[string]*rate.Limiter
	forgets time.Time
}

// limiterMemory is how often the limiters that are full again are forgotten.
const limiterMemory = time.Minute

func (l *limiters) of(name string, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.After(l.forgets) {
		for name, limiter := range l.byName {
			if limiter.TokensAt(now) >= float64(limiter.Burst()) {
				delete(l.byName, name)
			}
		}
		l.forgets = now.Add(limiterMemory)
	}
	limiter := l.byName[name]
	if limiter == nil {
		limiter = rate.NewLimiter(l.limit, max(1, int(2*l.limit)))
		l.byName[name] = limiter
	}
	return limiter
}

// limitRate refuses requests of a principal, or of an address that has not logged in, beyond the configured rate.
func (s *Server) limitRate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := addressOf(r)
		if who := login.From(r.Context()); who.Name != "" && who.Kind != login.None {
			name = "principal " + who.ID()
		}
		if !s.tooOften(w, name) {
			next.ServeHTTP(w, r)
		}
	})
}

// addressOf returns who has sent a request that has no login.
func addressOf(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return "address " + host
}

// tooOften counts a request of the name, and answers it if it is beyond the rate.
func (s *Server) tooOften(w http.ResponseWriter, name string) bool {
	now := time.Now()
	if s.config.RequestsPerSecond < 0 || s.rates.of(name, now).AllowN(now, 1) {
		return false
	}
	w.Header().Set("Retry-After", "1")
	route.WriteProblem(w, route.NewProblem(http.StatusTooManyRequests, "too_many_requests",
		"more than "+strconv.FormatFloat(s.config.RequestsPerSecond, 'g', -1, 64)+" requests per second", true))
	return true
}

// replyTimeout bounds a request as a whole. Streams move it forward with each event.
const replyTimeout = 5 * time.Minute

// cautious are headers of all replies. Their values are shared: who changes one sets it anew.
var cautious = http.Header{
	"X-Content-Type-Options": {"nosniff"}, "X-Frame-Options": {"DENY"}, "Referrer-Policy": {"no-referrer"},
	"Cache-Control": {"no-store"}, "Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
}

// observe gives each request an id, sets the headers that every reply has, and answers a panic.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var id [8]byte
		_, _ = rand.Read(id[:])
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(replyTimeout))
		header := w.Header()
		header.Set("X-Request-Id", hex.EncodeToString(id[:]))
		maps.Copy(header, cautious)
		defer func() {
			fault := recover()
			if fault == nil || fault == http.ErrAbortHandler {
				if fault != nil {
					panic(fault)
				}
				return
			}
			s.config.Logger.ErrorContext(r.Context(), "a request made the server panic",
				"event", "server.panic", "method", r.Method, "path", r.URL.Path, "panic", fault)
			route.WriteProblem(
				w,
				route.NewProblem(http.StatusInternalServerError, "internal",
					"The server failed; its log has the cause.", false),
			)
		}()
		next.ServeHTTP(w, r)
	})
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	route.WriteProblem(w, route.NewProblem(http.StatusNotFound, "not_found", "nothing is at this path", false))
}

func denyCrossOrigin(w http.ResponseWriter, r *http.Request) {
	route.WriteProblem(w, route.NewProblem(http.StatusForbidden, "cross_origin", fmt.Sprintf(
		"pages of other origins may not send this request; it came from the origin %q to the host %q",
		r.Header.Get("Origin"), r.Host), false))
}

// withProblems serves a mux whose own refusals, of a path or of a method, become problems.
func withProblems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refusal := unwritten{header: http.Header{}}
		refuse.ServeHTTP(&refusal, r)
		if refusal.status != http.StatusMethodNotAllowed {
			notFound(w, r)
			return
		}
		allowed := refusal.header.Get("Allow")
		w.Header().Set("Allow", allowed)
		route.WriteProblem(w, route.NewProblem(http.StatusMethodNotAllowed, "method_not_allowed",
			fmt.Sprintf("this path takes %s, got: %s", allowed, r.Method), false))
	})
}

// unwritten is a reply that is not written; its header and status are kept.
type unwritten struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (u *unwritten) Header() http.Header { return u.header }

// WriteHeader implements http.ResponseWriter.
func (u *unwritten) WriteHeader(status int) { u.status = status }

// Write implements http.ResponseWriter.
func (u *unwritten) Write(p []byte) (int, error) { return len(p), nil }
