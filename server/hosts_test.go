package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/server"
)

// sendTo sends a request as the page of a host would whose name leads to the server.
func (p *place) sendTo(host, method, path, body string, header ...string) (status int, problem api.Problem) {
	p.t.Helper()
	request, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	require.NoError(p.t, err)
	request.Host = host
	request.Header.Set("Origin", "http://"+host)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	reply, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	require.NoError(p.t, err)
	if reply.Header.Get("Content-Type") == "application/problem+json" {
		require.NoError(p.t, json.Unmarshal(text, &problem))
	}
	return reply.StatusCode, problem
}

// A page on the Internet whose name leads to this machine cannot use a server without logins (DNS rebinding).
func TestHostsWithoutLogins(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) {
		c.AllowedHosts = []string{"Flows.example.com", "*.dev.example.com"}
		c.BasePath = "/flow"
	})
	const input = `{"input":{"item":"book","count":1}}`
	for _, host := range []string{
		"evil.example", "evil.example:41200", "EVIL.example.", "localhost.evil.example", "evillocalhost",
		"127.0.0.1.evil.example", "example.com", "dev.example.com", "sub.flows.example.com", "x:y:z",
	} {
		for _, request := range [][3]string{
			{"POST", httpapi.Prefix + "/flows/order/runs", input}, {"GET", httpapi.Prefix + "/runs"},
			{"GET", "/flow" + httpapi.Prefix + "/runs"}, {"GET", "/"}, {"GET", "/openapi.json"}, {"GET", "/v1/executions?partition=0"},
		} {
			status, problem := p.sendTo(host, request[0], request[1], request[2])
			require.Equal(t, http.StatusForbidden, status, "%s %v", host, request)
			require.Equal(t, "host_not_allowed", problem.Code)
			require.Contains(t, problem.Detail, host)
			require.Contains(t, problem.Detail, "--allowed-hosts")
		}
		for _, probe := range []string{"/healthz", "/readyz"} {
			status, _ := p.sendTo(host, "GET", probe, "")
			require.Equal(t, http.StatusOK, status, "%s %s", host, probe)
		}
	}
	for _, host := range []string{
		"localhost", "LocalHost:8080", "localhost.", "flow.localhost:1", "127.0.0.1", "127.0.0.2:80", "[::1]", "[::1]:8080",
		"192.0.2.1:8080", "flows.EXAMPLE.com:443", "flows.example.com.", "a.dev.example.com", "a.b.dev.example.com",
	} {
		status, problem := p.sendTo(host, "POST", httpapi.Prefix+"/flows/order/runs", input)
		require.Equal(t, http.StatusCreated, status, "%s %v", host, problem)
	}
	client, err := p.server.Client()
	require.NoError(t, err)
	_, err = client.GetServer(t.Context())
	require.NoError(t, err)
}

// A server with logins answers for all hosts, unless it is configured with some.
func TestHostsWithLogins(t *testing.T) {
	t.Parallel()
	status := func(p *place) int {
		status, _ := p.sendTo("flows.example.com", "GET", httpapi.Prefix+"/runs", "", userHeader, "all")
		return status
	}
	require.Equal(t, http.StatusOK, status(newPlace(t, withProxy)))
	hosts := func(names ...string) *place {
		return newPlace(t, func(c *server.Config) { withProxy(c); c.AllowedHosts = names })
	}
	require.Equal(t, http.StatusForbidden, status(hosts("other.example.com")))
	require.Equal(t, http.StatusOK, status(hosts("other.example.com", "flows.example.com")))
	require.Equal(t, http.StatusOK, status(hosts("*")))
}

// The pages of all sites may call a server under /v1 only if it has a login.
func TestAnyOriginNeedsALogin(t *testing.T) {
	t.Parallel()
	engine := enginetest.New(t, testserver.Embedded).Engine
	config := server.Config{Engine: engine, Contract: server.ContractConfig{Origins: []string{"https://x.example.com", "*"}}}
	_, err := server.New(config)
	require.ErrorIs(t, err, server.ErrInvalid)
	require.ErrorContains(t, err, "Contract.Origins * (FF_CORS_ORIGINS) lets the pages of all sites call the server, which needs a login")
	config.AdminToken = adminSecret
	s, err := server.New(config)
	require.NoError(t, err)
	s.Close()
}

func TestAllowedHostsAreChecked(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"", "*.", "https://flows.example.com", "flows.example.com:8080", "a.*", ".example.com", "[::1]"} {
		_, err := server.New(server.Config{AllowedHosts: []string{host}})
		require.ErrorIs(t, err, server.ErrInvalid)
		require.ErrorContains(t, err, "AllowedHosts[0]", host)
	}
}

// Pages of other origins change nothing at a server without logins.
func TestCrossOriginRequests(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
		{"Origin", "https://evil.example", "Sec-Fetch-Site", ""},
	} {
		status, problem := p.sendTo("localhost", "POST", httpapi.Prefix+"/flows/order/runs", `{"input":{"item":"book","count":1}}`, header...)
		require.Equal(t, http.StatusForbidden, status, header)
		require.Equal(t, "cross_origin", problem.Code)
	}
}
