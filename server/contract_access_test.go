package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/server"
	"github.com/flowfabric/flowfabric-go/server/prometheus"
)

// Routes have the logins of the server in front, with the errors of the contract.
func TestContractLogin(t *testing.T) {
	t.Parallel()
	const secret = "a secret of the administrator"
	p := newPlace(t, func(c *server.Config) {
		c.Tokens, c.AdminToken, c.Contract.Origins = true, secret, []string{"https://console.example.com"}
	})
	call := func(method, path, token string, header ...string) (int, http.Header, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, p.url+path, nil)
		require.NoError(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		reply, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		require.NoError(t, err)
		return reply.StatusCode, reply.Header, string(text)
	}
	const list = "/v1/executions?partition=0"
	for _, token := range []string{"", "wrong"} {
		status, _, text := call("GET", list, token)
		require.Equal(t, http.StatusUnauthorized, status)
		require.JSONEq(t, `{"error":"missing or invalid Authorization header"}`, text)
	}
	status, _, _ := call("GET", list, secret)
	require.Equal(t, http.StatusOK, status)
	status, _, text := call("GET", "/healthz", "")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"status":"ok"}`, text)

	create := func(role api.Role, flows string) string {
		created, err := p.http(secret).CreateToken(t.Context(),
			api.CreateTokenInput{Name: string(role) + flows, Role: role, Flows: flows})
		require.NoError(t, err)
		return created.Text
	}
	status, _, _ = call("GET", list, create(api.Viewer, ""))
	require.Equal(t, http.StatusOK, status)
	status, _, text = call("GET", list, create(api.WorkerRole, ""))
	require.Equal(t, http.StatusForbidden, status)
	require.JSONEq(t, `{"error":"list_executions needs the right view"}`, text)
	status, _, _ = call("GET", list, create(api.Operator, "order*"))
	require.Equal(t, http.StatusForbidden, status, "the routes do not distinguish flows")

	replay := "/v1/executions/{fp:0}:" + uuid.NewString() + "/replay"
	status, header, _ := call("OPTIONS", list, "", "Origin", "https://console.example.com", "Access-Control-Request-Method", "GET")
	require.Equal(t, http.StatusNoContent, status)
	require.Equal(t, "https://console.example.com", header.Get("Access-Control-Allow-Origin"))
	status, _, _ = call("POST", replay, secret, "Origin", "https://console.example.com", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusBadRequest, status)
	status, header, _ = call("POST", replay, secret, "Origin", "https://evil.example.com", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, status)
	require.Empty(t, header.Get("Access-Control-Allow-Origin"))
}

// Every route has a right and a handler, and a server that is read-only refuses those that change something.
func TestContractReadOnly(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) { c.ReadOnly = true })
	status, text := fetch(t.Context(), p.url+"/v1/executions?partition=0")
	require.Equal(t, http.StatusOK, status, text)
	reply, err := http.Post(p.url+"/v1/flows", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	require.Equal(t, http.StatusForbidden, reply.StatusCode)
}

// The metrics of the routes have the names that other servers give them.
func TestContractMetrics(t *testing.T) {
	t.Parallel()
	exporter, err := prometheus.New()
	require.NoError(t, err)
	p := newPlace(t, func(c *server.Config) { c.MeterProvider, c.Metrics = exporter.MeterProvider(), exporter.Handler() })
	status, text := fetch(t.Context(), p.url+"/v1/executions?partition=0")
	require.Equal(t, http.StatusOK, status, text)
	status, text = fetch(t.Context(), p.url+"/metrics")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `ff_http_requests_total{method="GET",path="/v1/executions",status="200"} 1`)
	require.Contains(t, text, `ff_http_request_duration_seconds_count{method="GET",path="/v1/executions",status="200"} 1`)
	require.Contains(t, text, `ff_http_request_duration_seconds_bucket{method="GET",path="/v1/executions",status="200",le="0.005"}`)
	require.NotContains(t, text, `path="/v1/executions",status="200",le="10000"`, "the buckets are for milliseconds")
}
