package server_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/httpclient"
)

// A client reads replies to their end, also those that are sent in chunks: the next request uses the same connection.
func TestClientReusesConnections(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"version":"` + strings.Repeat("x", 10_000) + `"}`))
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write([]byte("\n"))
	}))
	listener.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	listener.Start()
	t.Cleanup(listener.Close)
	client, err := httpclient.New(listener.URL, httpclient.Config{HTTPClient: listener.Client()})
	require.NoError(t, err)
	for range 5 {
		info, err := client.GetServer(t.Context())
		require.NoError(t, err)
		require.Len(t, info.Version, 10_000)
	}
	require.EqualValues(t, 1, connections.Load())
}
