package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

type order struct {
	Item  string `json:"item"`
	Count int    `json:"count"`
}

type decision struct {
	Yes bool `json:"yes"`
}

var pack = activity.New("pack", func(_ context.Context, o order) (string, error) { return "packed " + o.Item, nil })

var ship = activity.New("ship", func(_ context.Context, d decision) (string, error) {
	if d.Yes {
		return "shipped", nil
	}
	return "kept", nil
})

func orders(t testing.TB) *flow.Definition[order, string] {
	f := flow.New[order, string]("order", flow.Describe("Packs an order."))
	packed := flow.Node(f, "pack", pack, f.Input())
	flow.Return(f, packed)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func approvals(t testing.TB) *flow.Definition[order, string] {
	f := flow.New[order, string]("approval")
	packed := flow.Node(f, "pack", pack, f.Input())
	answer := flow.Waitpoint[decision](f, "approve", activity.Title("Ship it?"), flow.After(packed))
	flow.Return(f, flow.Node(f, "ship", ship, answer))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// place is a server with its own engine, a worker and a keeper.
type place struct {
	t      *testing.T
	bench  *enginetest.Bench
	url    string
	server *server.Server
	client *runtime.Client
	// log contains the log of the server.
	log *logged
	// token is sent with each request, if it is set.
	token string
}

// each runs a test of a server on every engine.
func each(t *testing.T, configure func(*server.Config), test func(t *testing.T, p *place)) {
	t.Helper()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) { test(t, newPlaceOf(t, b, configure)) })
}

// newPlace returns a place with an embedded engine, for tests that do not depend on the engine.
func newPlace(t *testing.T, configure func(*server.Config)) *place {
	t.Helper()
	return newPlaceOf(t, enginetest.New(t, testserver.Embedded), configure)
}

func newPlaceOf(t *testing.T, b *enginetest.Bench, configure func(*server.Config)) *place {
	t.Helper()
	order, approval := orders(t), approvals(t)
	b.KeepingWorker(t, append(order.Handlers(), approval.Handlers()...))
	require.NoError(t, b.Client.Publish(enginetest.Context(t), runtime.Publication{Flow: order}, runtime.Publication{Flow: approval}))
	return newPlaceOn(t, b, configure)
}

// newPlaceOn returns a further server of an engine.
func newPlaceOn(t *testing.T, b *enginetest.Bench, configure func(*server.Config)) *place {
	t.Helper()
	log := &logged{}
	config := server.Config{Engine: b.Engine, Logger: log.logger()}
	if configure != nil {
		configure(&config)
	}
	s, err := server.New(config)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	listener := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		listener.CloseClientConnections()
		listener.Close()
	})
	return &place{t: t, bench: b, url: listener.URL, server: s, client: b.Client, log: log}
}

// logged records a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write implements io.Writer.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all of it.
func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// do sends a request and decodes the reply into out; it returns the reply, whose body is read.
func (p *place) do(method, path string, body, out any, header ...string) *http.Response {
	p.t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(p.t, err)
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.url+httpapi.Prefix+path, reader)
	require.NoError(p.t, err)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	reply, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	require.NoError(p.t, err)
	if out != nil {
		require.NoError(p.t, json.Unmarshal(text, out), "%s", text)
	}
	return reply
}

func (p *place) start(flow, id string, input any) {
	p.t.Helper()
	var started api.StartedRun
	reply := p.do("POST", "/flows/"+flow+"/runs", map[string]any{"id": id, "input": input}, &started)
	require.Equal(p.t, http.StatusCreated, reply.StatusCode)
	require.Equal(p.t, api.StartedRun{Flow: flow, Run: id}, started)
}
