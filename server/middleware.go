package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/route"
	"github.com/flowfabric/flowfabric-go/server/internal/service"
)

// identify finds the principal of a request. One with credentials that are not valid is refused; one without any has no
// rights, unless the server has no logins.
func (s *Server) identify(next http.Handler) http.Handler {
	methods := s.methods()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := login.Principal{}
		if !s.config.secured() {
			who = login.Anonymous()
		}
		for _, method := range methods {
			found, ok, err := method.Principal(r)
			if errors.Is(err, login.ErrRefused) {
				w.Header().Set("WWW-Authenticate", "Bearer")
				route.WriteProblem(w, route.NewProblem(http.StatusUnauthorized, "unauthorized", err.Error(), false))
				return
			}
			if err != nil {
				p, _ := route.ProblemOf(err)
				route.WriteProblem(w, p)
				return
			}
			if ok {
				who = found
				break
			}
		}
		if s.config.secured() && who.Name == "" && bearerSent(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			route.WriteProblem(w,
				route.NewProblem(http.StatusUnauthorized, "unauthorized", login.ErrRefused.Error(), false))
			return
		}
		next.ServeHTTP(w, r.WithContext(login.With(r.Context(), who)))
	})
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
	if s.config.RequestsPerSecond < 0 {
		return next
	}
	all := &limiters{byName: map[string]*rate.Limiter{}, limit: rate.Limit(s.config.RequestsPerSecond)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "principal " + login.From(r.Context()).Name
		if who := login.From(r.Context()); who.Name == "" || who.Kind == login.None {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			name = "address " + host
		}
		now := time.Now()
		if !all.of(name, now).AllowN(now, 1) {
			w.Header().Set("Retry-After", "1")
			route.WriteProblem(w, route.NewProblem(http.StatusTooManyRequests, "too_many_requests",
				"more than "+strconv.FormatFloat(s.config.RequestsPerSecond, 'g', -1, 64)+" requests per second", true))
			return
		}
		next.ServeHTTP(w, r)
	})
}

const (
	// maxIdempotentBody is the largest body of a request with an idempotency key; bodyTimeout bounds its reading.
	maxIdempotentBody = 2 << 20
	bodyTimeout       = 10 * time.Second
	// storeTimeout bounds the storing of a reply.
	storeTimeout = 10 * time.Second
	// replyTimeout bounds a request as a whole. Streams move it forward with each event.
	replyTimeout = 5 * time.Minute
)

// storedReply is a reply that is given again.
type storedReply struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
}

// idempotent answers a repeated request that has an idempotency key as the first one was answered.
func (s *Server) idempotent(next http.Handler) http.Handler {
	store := s.service.Store()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		idempotencyKey := r.Header.Get("Idempotency-Key")
		if idempotencyKey == "" || r.Method == http.MethodGet || len(login.From(r.Context()).Rights) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == api.Prefix+api.CreateToken.Path {
			route.WriteProblem(w, route.NewProblem(http.StatusUnprocessableEntity, "invalid",
				"create-token takes no Idempotency-Key: its reply has a secret, which must not be stored", false))
			return
		}
		if len(idempotencyKey) > 256 {
			route.WriteProblem(w, route.NewProblem(http.StatusUnprocessableEntity, "invalid",
				"Idempotency-Key must have at most 256 bytes", false))
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxIdempotentBody))
		if err != nil {
			route.WriteProblem(w,
				route.NewProblem(http.StatusRequestEntityTooLarge, "too_large", "the body is too large", false))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		who := login.From(r.Context())
		request := serverstore.Request{
			Key: string(who.Kind) + " " + who.Name + " " + idempotencyKey, Digest: digestOf(r, body),
		}
		stored, first, err := store.BeginRequest(r.Context(), request)
		if err != nil {
			p, _ := route.ProblemOf(err)
			if p.Retryable {
				w.Header().Set("Retry-After", "5")
			}
			route.WriteProblem(w, p)
			return
		}
		if !first {
			writeStored(w, stored)
			return
		}
		recorder := &recorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(recorder, r.WithContext(service.WithRepeatKey(r.Context(), request.Name())))
		var reply []byte
		if recorder.status < http.StatusInternalServerError && recorder.status != http.StatusTooManyRequests {
			reply = recorder.stored()
		}
		// The client may be gone, which is when it will ask for the reply again.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTimeout)
		defer cancel()
		if err := store.EndRequest(ctx, request, reply); err != nil {
			s.config.Logger.WarnContext(ctx, "the reply to a request with an idempotency key was not stored",
				"event", "server.reply_not_stored", "error", err)
		}
	})
}

func digestOf(r *http.Request, body []byte) [sha256.Size]byte {
	sum := sha256.New()
	_, _ = io.WriteString(sum, r.Method+" "+r.URL.RequestURI()+"\n"+r.Header.Get("If-Match")+"\n")
	_, _ = sum.Write(body)
	return [sha256.Size]byte(sum.Sum(nil))
}

func writeStored(w http.ResponseWriter, stored []byte) {
	var reply storedReply
	body, err := []byte(nil), json.Unmarshal(stored, &reply)
	if err == nil {
		body, err = base64.StdEncoding.DecodeString(reply.Body)
	}
	if err != nil {
		route.WriteProblem(w,
			route.NewProblem(http.StatusConflict, "idempotency_key_conflict", "the stored reply cannot be read", false))
		return
	}
	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Idempotent-Replayed", "true")
	w.WriteHeader(reply.Status)
	_, _ = w.Write(body)
}

// recorder keeps what is written, besides writing it.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status; r.ResponseWriter.WriteHeader(status) }

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if r.body.Len()+len(p) <= serverstore.MaxReply {
		r.body.Write(p)
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) stored() []byte {
	reply := storedReply{
		Status: r.status,
		Header: map[string]string{},
		Body:   base64.StdEncoding.EncodeToString(r.body.Bytes()),
	}
	for _, name := range []string{"Content-Type", "Etag"} {
		if value := r.Header().Get(name); value != "" {
			reply.Header[name] = value
		}
	}
	text, err := json.Marshal(reply)
	if err != nil || len(text) > serverstore.MaxReply {
		return nil
	}
	return text
}

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
