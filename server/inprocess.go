package server

import (
	"io"
	"net/http"
	"sync"

	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// Client returns a client that calls the server's handler in this process, without a connection.
func (s *Server) Client() (*httpclient.Client, error) {
	return httpclient.New("http://in-process",
		httpclient.Config{HTTPClient: &http.Client{Transport: transport{s.handler}}})
}

// ClientAs returns a client that calls the server's operations in this process, without a connection, a login and a
// bound on its rate. It has all rights, since the program can open the engine anyway, and acts in the name of the
// actor, which the audit log records.
func (s *Server) ClientAs(actor string) (*httpclient.Client, error) {
	who := login.Principal{Name: actor, Kind: login.InProcess, Rights: httpapi.Rights()}
	named := s.observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.operations.ServeHTTP(w, r.WithContext(login.With(r.Context(), who)))
	}))
	return httpclient.New("http://in-process",
		httpclient.Config{HTTPClient: &http.Client{Transport: transport{named}}})
}

// transport carries requests to a handler.
type transport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper. The body of the reply streams the output of the handler.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	request := r.Clone(r.Context())
	request.RequestURI, request.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:0"
	request.Host = "localhost"
	if request.Body == nil {
		request.Body = http.NoBody
	}
	body, pipe := io.Pipe()
	w := &replyWriter{header: http.Header{}, body: pipe, begun: make(chan struct{})}
	go func() {
		defer func() {
			if fault := recover(); fault != nil && fault != http.ErrAbortHandler {
				panic(fault)
			} else if fault != nil {
				w.WriteHeader(http.StatusOK)
				_ = pipe.CloseWithError(io.ErrUnexpectedEOF)
			}
		}()
		t.handler.ServeHTTP(w, request)
		w.WriteHeader(http.StatusOK)
		_ = pipe.Close()
	}()
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = body.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: -1, Request: r,
	}, nil
}

// replyWriter is an http.ResponseWriter and http.Flusher that writes to a pipe.
type replyWriter struct {
	header, sent http.Header
	body         *io.PipeWriter
	once         sync.Once
	begun        chan struct{}
	status       int
}

// Header implements http.ResponseWriter.
func (w *replyWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *replyWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

// Write implements http.ResponseWriter.
func (w *replyWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush implements http.Flusher.
func (w *replyWriter) Flush() { w.WriteHeader(http.StatusOK) }
