package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/server"
)

func probe(t *testing.T, url string) (status int, reply map[string]any) {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&reply))
	return answer.StatusCode, reply
}

// A server is alive without its engine, and ready with it; it reports the state of the keepers.
func TestProbes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		open := func() string {
			s, err := server.New(server.Config{Engine: b.Engine, Logger: (&logged{}).logger()})
			require.NoError(t, err)
			t.Cleanup(s.Close)
			listener := httptest.NewServer(s.Handler())
			t.Cleanup(listener.Close)
			return listener.URL
		}
		address := open()
		status, reply := probe(t, address+"/readyz")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, map[string]any{"ready": true, "keepers": "keeper.none"}, reply)
		b.Keeper(t)
		enginetest.Eventually(t, func() string {
			_, reply := probe(t, open()+"/readyz") // a server caches its findings for a while
			if reply["keepers"] != "ok" {
				return "no keeper is seen"
			}
			return ""
		})
		require.NoError(t, b.Engine.Close())
		status, reply = probe(t, address+"/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, false, reply["ready"])
		status, reply = probe(t, address+"/healthz")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "ok", reply["status"])
	})
}

// Without the console, a browser gets a page with links that lead on, also under a path.
func TestHomePage(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) { c.BasePath, c.Version, c.NoConsole = "/flow", "v<1>", true })
	for _, path := range []string{"/", "/flow/", "/flow"} {
		reply, err := http.Get(p.url + path)
		require.NoError(t, err)
		text := make([]byte, 4096)
		n, _ := reply.Body.Read(text)
		require.NoError(t, reply.Body.Close())
		require.Equal(t, http.StatusOK, reply.StatusCode)
		require.Contains(t, reply.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Contains(t, string(text[:n]), `href="openapi.json"`)
		require.Contains(t, string(text[:n]), "v&lt;1&gt;")
	}
}
