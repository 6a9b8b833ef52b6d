// Package inbound bounds the bodies of requests: the time in which they arrive, whether their handlers read them or
// not, and their form.
package inbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/netbound"
)

const (
	// Timeout is how long the body of a request may take to arrive.
	Timeout = 10 * time.Second
	// unreadTimeout is the time for the rest of a body that its handler has not read, or after the server has begun to
	// stop. net/http reads some of the unread rest, so that the client gets the reply and can use the connection
	// again.
	unreadTimeout = time.Second
)

// Handler serves next with bodies that have to arrive within timeout, which defaults to Timeout. When stopping ends,
// the rest has to arrive within a second.
func Handler(stopping context.Context, timeout time.Duration, next http.Handler) http.Handler {
	if timeout == 0 {
		timeout = Timeout
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !HasBody(r) {
			defer netbound.Serve(r.Context())()
			next.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		b := &body{
			ReadCloser: r.Body, request: r, set: control.SetReadDeadline, until: time.Now().Add(timeout),
			reply: w.Header(),
		}
		_ = b.set(b.until)
		release := context.AfterFunc(stopping, b.cut)
		defer func() {
			release()
			b.leave()
		}()
		r.Body = b
		next.ServeHTTP(w, r)
	})
}

// body is the body of a request, whose deadline ends when it has arrived: a deadline for reading that passes later
// would end the request.
type body struct {
	io.ReadCloser
	request *http.Request
	set     func(time.Time) error
	until   time.Time
	// reply is the header of the reply.
	reply http.Header

	mu      sync.Mutex
	arrived bool
	done    func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.arrived {
			b.arrived, b.done = true, netbound.Serve(b.request.Context())
		}
		_ = b.set(time.Time{})
	} else if err != nil {
		b.endConnection()
	}
	return n, err
}

// Close implements io.Closer. A handler that closes a body does not read on.
func (b *body) Close() error {
	b.mu.Lock()
	arrived := b.arrived
	b.mu.Unlock()
	if !arrived {
		b.endConnection()
	}
	return b.ReadCloser.Close()
}

// endConnection ends the connection with the reply. net/http does so by itself only for bodies that it has not given to
// a wrapper: of one that was closed within another, it takes the rest for read, and waits for the next request.
func (b *body) endConnection() { b.reply.Set("Connection", "close") }

// cut shortens the time of a body that has not arrived.
func (b *body) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.arrived {
		_ = b.set(b.rest())
	}
}

// leave is called when the handler has ended.
func (b *body) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done != nil {
		b.done()
	}
	if !b.arrived {
		_ = b.set(b.rest())
	}
}

// rest is the time until which the unread rest of a body may arrive.
func (b *body) rest() time.Time {
	if soon := time.Now().Add(unreadTimeout); soon.Before(b.until) {
		return soon
	}
	return b.until
}

// Again makes the body of a request readable once more, from the text that was read of it.
func Again(r *http.Request, text io.Reader) { r.Body = &again{text, r.Body} }

// again is a body that was read. At its end it also reads the end of the body below it, since some readers set a
// deadline before they read.
type again struct {
	text  io.Reader
	below io.ReadCloser
}

// Read implements io.Reader.
func (a *again) Read(p []byte) (int, error) {
	n, err := a.text.Read(p)
	if errors.Is(err, io.EOF) {
		_, _ = a.below.Read(nil)
	}
	return n, err
}

// Close implements io.Closer.
func (a *again) Close() error { return a.below.Close() }

// HasBody reports whether a request has a body.
func HasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// Encoded returns why a request with an encoded body is refused; empty for others.
func Encoded(r *http.Request) string {
	encoding := strings.Join(r.Header.Values("Content-Encoding"), ", ")
	if encoding == "" || strings.EqualFold(encoding, "identity") || !HasBody(r) {
		return ""
	}
	return fmt.Sprintf("the body must not be encoded, got: Content-Encoding %.80q", encoding)
}

// NotJSON returns why a request whose body is not declared as JSON is refused; empty for others. Browsers let pages of
// other origins send other types without a preflight request.
func NotJSON(r *http.Request) string {
	if !HasBody(r) {
		return ""
	}
	sent := r.Header.Values("Content-Type")
	if len(sent) == 1 {
		kind, _, err := mime.ParseMediaType(sent[0])
		if err == nil && (kind == "application/json" ||
			strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
			return ""
		}
	}
	return fmt.Sprintf("the body must be JSON with the Content-Type application/json, got: %.80q",
		strings.Join(sent, ", "))
}
