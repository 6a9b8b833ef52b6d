package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/server"
)

// ended waits until the server has closed a connection.
func ended(t *testing.T, connection net.Conn, what string) {
	t.Helper()
	require.NoError(t, connection.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.Copy(io.Discard, connection)
	require.NoError(t, err, what)
}

// A body that does not arrive does not keep its connection open, for any request and any sender.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) {
		withTokens(c)
		c.Timeouts.Body, c.Timeouts.Idle = 20*time.Millisecond, time.Hour
	})
	address, _ := p.serve()
	dial := func(text string) net.Conn {
		connection, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = connection.Close() })
		_, err = io.WriteString(connection, text)
		require.NoError(t, err)
		return connection
	}
	open := map[string]net.Conn{}
	for _, line := range []string{
		"GET /healthz", "GET /readyz", "GET /", "GET /nosuch", "GET /openapi.json", "GET /api/v1/runs",
		"POST /api/v1/flows/order/runs", "POST /api/v1/runs/order/x/cancel", "PATCH /api/v1/runs", "DELETE /api/v1/nosuch",
		"POST /v1/executions", "GET /v1/executions", "POST /v1/nosuch", "GET /../x", "POST /api/v1/tasks/claim",
	} {
		for name, credentials := range map[string]string{"": "", " with a login": adminSecret, " with a bad login": "x"} {
			for _, length := range []string{"Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n"} {
				header := "Host: localhost\r\nContent-Type: application/json\r\n"
				if credentials != "" {
					header += "Authorization: Bearer " + credentials + "\r\n"
				}
				open[line+name+length] = dial(line + " HTTP/1.1\r\n" + header + length)
			}
		}
	}
	for what, connection := range open {
		ended(t, connection, what)
	}
}

// Any number of connections that wait for their clients does not keep other clients out.
func TestManySlowBodies(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) {
		withTokens(c)
		c.Connections, c.ConnectionsPerAddress = 20, 10
		c.Timeouts = server.Timeouts{Header: time.Hour, Body: time.Hour, Idle: time.Hour}
	})
	address, _ := p.serve()
	for i := range 100 {
		connection, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer connection.Close()
		_, _ = io.WriteString(connection, []string{
			"", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
		}[i%3])
	}
	reply, err := http.Get("http://" + address + "/healthz")
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	require.Equal(t, http.StatusOK, reply.StatusCode)
	require.Contains(t, p.log.String(), "a bound of connections is reached")
}

// A request may last longer than its body may take to arrive.
func TestRequestOutlastsBodyTimeout(t *testing.T) {
	t.Parallel()
	each(t, func(c *server.Config) { c.Timeouts.Body = 50 * time.Millisecond }, func(t *testing.T, p *place) {
		address, _ := p.serve()
		c, err := httpclient.New("http://"+address, httpclient.Config{})
		require.NoError(t, err)
		in := api.ClaimTaskInput{Worker: "w", Activities: []string{"nothing"}}
		in.Wait.Duration = time.Second
		begun := time.Now()
		claimed, err := c.ClaimTask(enginetest.Context(t), in)
		require.NoError(t, err)
		require.Nil(t, claimed.Task)
		require.GreaterOrEqual(t, time.Since(begun), time.Second)
	})
}

// A server that stops does not wait for bodies, nor for connections that do nothing.
func TestSlowBodiesDoNotDelayStop(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) {
		c.Timeouts = server.Timeouts{Body: time.Hour, Header: time.Hour, Idle: time.Hour, Stop: time.Hour}
	})
	address, stop := p.serve()
	connection, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer connection.Close()
	_, err = fmt.Fprintf(connection, "POST /api/v1/flows/order/runs HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: application/json\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(connection).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue", "the server reads the body")
	require.NoError(t, stop())
}

// Only JSON that is sent as such is taken.
func TestTypesOfBodies(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	for _, path := range []string{"/api/v1/flows/order/runs", "/v1/executions"} {
		for _, header := range [][2]string{
			{"Content-Type", "text/plain"}, {"Content-Type", "multipart/form-data; boundary=x"}, {"Content-Type", ""},
			{"Content-Type", "application/x-www-form-urlencoded"}, {"Content-Type", "application/json, text/plain"},
			{"Content-Encoding", "gzip"}, {"Content-Encoding", "br"}, {"Content-Encoding", "identity, gzip"},
		} {
			for _, key := range []string{"", "k"} {
				request, err := http.NewRequest("POST", p.url+path, strings.NewReader(`{"input":{"item":"book","count":1}}`))
				require.NoError(t, err)
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set(header[0], header[1])
				if key != "" {
					request.Header.Set(keyHeader, key)
				}
				reply, err := http.DefaultClient.Do(request)
				require.NoError(t, err)
				require.NoError(t, reply.Body.Close())
				require.Equal(t, http.StatusUnsupportedMediaType, reply.StatusCode, "%s: %v", path, header)
			}
		}
	}
	require.NotContains(t, contents(t, p.bench), "api_request")
}
