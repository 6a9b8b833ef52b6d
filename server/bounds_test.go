package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/server"
)

// A principal who sends too many requests gets status 429 and a time to wait; others are served.
func TestRequestRateIsBoundedPerPrincipal(t *testing.T) {
	t.Parallel()
	// A burst of two, and no further request within the test.
	p := newPlace(t, func(c *server.Config) { withProxy(c); c.RequestsPerSecond = 1.0 / 3600 })
	require.Equal(t, http.StatusOK, p.do("GET", "/server", nil, nil, userHeader, "all").StatusCode)
	var problem api.Problem
	reply := p.do("GET", "/server", nil, &problem, userHeader, "all")
	require.Equal(t, http.StatusTooManyRequests, reply.StatusCode)
	require.True(t, problem.Retryable)
	require.NotEmpty(t, reply.Header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, p.do("GET", "/server", nil, nil, userHeader, "bound").StatusCode)
	require.Equal(t, http.StatusUnauthorized, p.do("GET", "/server", nil, nil).StatusCode)
	require.Equal(t, http.StatusTooManyRequests, p.do("GET", "/server", nil, nil).StatusCode, "addresses without a login")
}

// stream opens a stream of events.
func (p *place) stream(ctx context.Context, path string, header ...string) *http.Response {
	p.t.Helper()
	request, err := http.NewRequestWithContext(ctx, "GET", p.url+httpapi.Prefix+path, nil)
	require.NoError(p.t, err)
	request.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	reply, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = reply.Body.Close() })
	return reply
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) { c.Streams = 2 })
	p.start("approval", "one", order{"book", 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		require.Equal(t, http.StatusOK, p.stream(ctx, "/runs/approval/one/events").StatusCode)
	}
	require.Equal(t, http.StatusTooManyRequests, p.stream(t.Context(), "/runs/approval/one/events").StatusCode)
	cancel()
	enginetest.Eventually(t, func() string {
		return map[bool]string{false: "no stream ends"}[p.stream(t.Context(), "/feed").StatusCode == http.StatusOK]
	})
}

// Each operation has the largest body that it may take, with and without an idempotency key.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	for path, most := range map[string]int{
		"/flows/order/runs": 2 << 20, "/runs/order/none/signals": 256 << 10, "/lanes/default/pause": 64 << 10,
	} {
		for _, key := range []string{"", "k" + path} {
			request, err := http.NewRequest("POST", p.url+httpapi.Prefix+path,
				strings.NewReader(`{"reason":"`+strings.Repeat("x", most)+`"}`))
			require.NoError(t, err)
			request.Header.Set("Content-Type", "application/json")
			if key != "" {
				request.Header.Set("Idempotency-Key", key)
			}
			reply, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			text, err := io.ReadAll(reply.Body)
			require.NoError(t, err)
			require.NoError(t, reply.Body.Close())
			require.Equal(t, http.StatusRequestEntityTooLarge, reply.StatusCode, "%s: %s", path, text)
			require.Contains(t, string(text), `"code":"too_large"`)
		}
	}
	var pauses fabrictype.Page[fabrictype.Pause]
	p.do("GET", "/pauses", nil, &pauses)
	require.Empty(t, pauses.Items)
}

// serve runs the server of a place on its own listener, until the returned function is called; the function returns
// the result of Serve.
func (p *place) serve() (address string, stop func() error) {
	p.t.Helper()
	listener, err := p.server.Listen("localhost:0")
	require.NoError(p.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.server.Serve(ctx, listener) }()
	stop = func() error {
		cancel()
		select {
		case err := <-ended:
			ended <- err
			return err
		case <-time.After(patience):
			return fmt.Errorf("the server does not stop")
		}
	}
	p.t.Cleanup(func() { _ = stop() })
	return listener.Addr().String(), stop
}

// Requests that are slow to arrive do not keep a connection for ever.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) {
		c.Timeouts = server.Timeouts{Header: 20 * time.Millisecond, Idle: 20 * time.Millisecond}
	})
	address, _ := p.serve()
	for name, sent := range map[string]string{
		"an unfinished header": "GET /healthz HTTP/1.1\r\nHost: x\r\n", "an idle connection": "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		connection, err := net.Dial("tcp", address)
		require.NoError(t, err)
		require.NoError(t, connection.SetDeadline(time.Now().Add(patience)))
		// The server may close the connection before it has read anything.
		if _, err = io.WriteString(connection, sent); err == nil {
			_, err = io.Copy(io.Discard, connection) // ends when the server closes the connection
		}
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			require.NoError(t, err, name)
		}
		require.NoError(t, connection.Close())
	}
	steady := newPlace(t, nil)
	address, _ = steady.serve()
	connection, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer connection.Close()
	_, err = io.WriteString(connection, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	require.NoError(t, err)
	reply, err := http.ReadResponse(bufio.NewReader(connection), nil)
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, reply.StatusCode)
}

// A server that stops ends its streams with a message, and lets requests end.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		address, stop := p.serve()
		p.url = "http://" + address
		p.start("approval", "one", order{"book", 1})
		events := p.stream(t.Context(), "/runs/approval/one/events")
		lines := bufio.NewReader(events.Body)
		first, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(first, "id: "), first)
		require.NoError(t, stop())
		rest, err := io.ReadAll(lines)
		require.NoError(t, err, "the stream ends as streams do")
		require.True(t, bytes.Contains(rest, []byte("event: problem")), "%s", rest)
		require.True(t, bytes.Contains(rest, []byte(`"code":"server_stopping"`)), "%s", rest)
		_, err = net.Dial("tcp", address)
		require.Error(t, err)
	})
}

const adminSecret = "a secret of the administrator"

func withTokens(c *server.Config) { c.Tokens, c.AdminToken = true, adminSecret }

// as returns the place with a token that was created for the role and flows.
func (p *place) as(name string, role api.Role, flows string) *place {
	p.t.Helper()
	admin := *p
	admin.token = adminSecret
	var created api.CreatedToken
	reply := admin.do("POST", "/tokens", map[string]any{"name": name, "role": role, "flows": flows}, &created)
	require.Equal(p.t, http.StatusCreated, reply.StatusCode)
	out := *p
	out.token = created.Text
	return &out
}

// With the token of a wait of a flow that they may not see, principals can neither answer the wait nor learn that it
// exists.
func TestTokensOfWaitsAreBoundToFlows(t *testing.T) {
	t.Parallel()
	each(t, withTokens, func(t *testing.T, p *place) {
		ctx := enginetest.Context(t)
		inside, outside := p.as("in", api.Operator, "appro*"), p.as("out", api.Operator, "ord*")
		inside.start("approval", "one", order{"book", 1})
		var token string
		enginetest.Eventually(t, func() string {
			waits, err := p.client.Run("approval", "one").Waitpoints(ctx)
			if err != nil || len(waits) == 0 {
				return "no wait"
			}
			token = waits[0].Token.Reveal()
			return ""
		})
		require.NotEmpty(t, token)
		forged := token[:len(token)-4] + "AAAA"
		answer := func(token string) map[string]any {
			return map[string]any{"token": token, "name": "answer", "payload": map[string]any{"yes": true}}
		}
		var hidden, invalid api.Problem
		require.Equal(t, http.StatusForbidden, outside.do("POST", "/signals", answer(forged), &invalid).StatusCode)
		require.Equal(t, http.StatusForbidden, outside.do("POST", "/signals", answer(token), &hidden).StatusCode)
		require.Equal(t, invalid, hidden)
		require.Equal(t, http.StatusForbidden,
			outside.do("POST", "/waits/by-token", map[string]any{"token": forged}, &invalid).StatusCode)
		require.Equal(t, http.StatusForbidden,
			outside.do("POST", "/waits/by-token", map[string]any{"token": token}, &hidden).StatusCode)
		require.Equal(t, invalid, hidden)

		var delivery fabrictype.SignalResult
		require.Equal(t, http.StatusOK, inside.do("POST", "/signals", answer(token), &delivery).StatusCode)
		require.EqualValues(t, "resumed", delivery.Outcome)
	})
}
