package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// A request that was executed, but whose writes are not on a replica, is answered as retryable, and is not logged as a
// failure of the server.
func TestNotReplicated(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		address, prefix := testserver.Shared(t, kind).URL(), enginetest.NewPrefix() // has no replica
		b := enginetest.Open(t, kind, address, prefix)
		require.NoError(t, b.Client.Publish(enginetest.Context(t), runtime.Publication{Flow: orders(t)}))
		lagging := enginetest.Open(t, kind, address, prefix, runtime.OpenConfig{
			Replication: runtime.Replication{Replicas: 1, Timeout: 10 * time.Millisecond},
		})
		log := &logged{}
		s, err := server.New(server.Config{Engine: lagging.Engine, Logger: log.logger()})
		require.NoError(t, err)
		t.Cleanup(s.Close)
		listener := httptest.NewServer(s.Handler())
		t.Cleanup(listener.Close)
		p := &place{t: t, url: listener.URL}
		for range 2 {
			var problem api.Problem
			reply := p.do("POST", "/flows/order/runs", map[string]any{"id": "one", "input": order{"book", 1}}, &problem)
			require.Equal(t, http.StatusServiceUnavailable, reply.StatusCode)
			require.Equal(t, "not_replicated", problem.Code)
			require.True(t, problem.Retryable)
			require.Contains(t, problem.Detail, "0 of 1 replicas")
		}
		var found fabrictype.RunDetail
		require.Equal(t, http.StatusOK, p.do("GET", "/runs/order/one", nil, &found).StatusCode, "it was carried out")
		require.NotContains(t, log.String(), "level=ERROR")
	})
}
