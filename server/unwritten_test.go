package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// gone is the writer of a reply whose client has left.
type gone struct{ http.ResponseWriter }

// Write implements http.ResponseWriter.
func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A reply that cannot be written is not a panic of the server, whether it has a result or an error, and whether the
// time of the request has passed or its connection has broken.
func TestUnwrittenReplyIsNotAPanic(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, ctx := range []context.Context{t.Context(), expired} {
		for _, path := range []string{"/runs", "/server", "/runs/order/none", "/nosuch"} {
			request := httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+httpapi.Prefix+path, nil)
			p.server.Handler().ServeHTTP(gone{httptest.NewRecorder()}, request)
		}
		request := httptest.NewRequestWithContext(ctx, "POST", "http://localhost"+httpapi.Prefix+"/flows/order/runs", strings.NewReader("{"))
		p.server.Handler().ServeHTTP(gone{httptest.NewRecorder()}, request)
	}
	require.NotContains(t, p.log.String(), "panic")
}
