package browsertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// place is a server with its engine, a worker and the flow of claims.
type place struct {
	*desk
	client *runtime.Client
	engine *runtime.Engine
	server *server.Server
	url    string // of the console, with a slash at its end
}

// eachEngine runs a test on the embedded engine and on Valkey, as selected by FLOWFABRIC_TEST_ENGINES, one after the
// other, since a browser needs many resources.
func eachEngine(t *testing.T, test func(t *testing.T, open func(...func(*server.Config)) *place)) {
	t.Helper()
	wanted := strings.Split(os.Getenv("FLOWFABRIC_TEST_ENGINES"), ",")
	for _, kind := range []testserver.Kind{"embedded", testserver.Valkey} {
		if !slices.Contains(wanted, string(kind)) && (wanted[0] != "" || kind != "embedded") {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			test(t, func(configure ...func(*server.Config)) *place { return newPlace(t, kind, configure...) })
		})
	}
}

func newPlace(t *testing.T, kind testserver.Kind, configure ...func(*server.Config)) *place {
	t.Helper()
	return newPlaceAt(t, enginetest.URL(t, kind), configure...)
}

func newPlaceAt(t *testing.T, at string, configure ...func(*server.Config)) *place {
	t.Helper()
	p := &place{desk: &desk{bank: make(chan struct{}), handed: make(chan struct{})}}
	config := runtime.LocalConfig{
		Activities: p.handlers(t), Worker: runtime.WorkerConfig{Name: "adjuster", Concurrency: 24, Grace: -1},
	}
	if at != "embedded:" {
		config.URL, config.Open.Prefix, config.Open.AllowVolatile = at, enginetest.NewPrefix(), true
	}
	local, err := runtime.OpenLocal(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = local.Close() })
	p.engine = local.Engine()
	p.client, err = runtime.NewClient(p.engine) // which starts runs that no worker serves, unlike the client of local
	require.NoError(t, err)
	t.Cleanup(p.client.Close)
	require.NoError(t, p.client.Publish(t.Context(),
		runtime.Publication{Flow: p.claims, By: "claims-service"}, runtime.Publication{Flow: p.media}))
	p.serve(t, configure...)
	return p
}

// serve starts a server below /a/b/, behind a proxy that strips this prefix: the server does not know of it.
func (p *place) serve(t *testing.T, configure ...func(*server.Config)) {
	t.Helper()
	config := server.Config{Engine: p.engine, EngineName: "test", Version: "v1.0.0", RequestsPerSecond: -1}
	for _, c := range configure {
		c(&config)
	}
	s, err := server.New(config)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	listener := httptest.NewServer(http.StripPrefix("/a/b", s.Handler()))
	t.Cleanup(func() { listener.CloseClientConnections(); listener.Close() })
	p.server, p.url = s, listener.URL+"/a/b/"
}

// work runs a worker for more activities until the test ends.
func (p *place) work(t *testing.T, handlers ...activity.Handler) {
	t.Helper()
	w, err := runtime.NewWorker(p.engine, runtime.WorkerConfig{Name: "extra", NoKeeper: true, Grace: -1})
	require.NoError(t, err)
	require.NoError(t, w.Register(handlers...))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
}

// start starts a claim that runs until the review, the bank and a part of the prices block it.
func (p *place) start(t *testing.T, id string, opts ...runtime.StartOption) *runtime.Run[string] {
	t.Helper()
	in := claim{Claim: id, Amount: 18420, Pages: 4, Parts: 12}
	opts = append([]runtime.StartOption{
		runtime.WithID(id), runtime.WithTag("claims.tenant", "borealis"), runtime.WithActor("claims-service"),
	}, opts...)
	run, err := runtime.Start(t.Context(), p.client, p.claims, in, opts...)
	require.NoError(t, err)
	return run
}

// await waits until an event of the kind has happened to the node.
func await(t *testing.T, run *runtime.RunRef, node, kind string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for e, err := range run.Watch(ctx, "") {
		require.NoError(t, err)
		if e.Node == node && string(e.Kind) == kind {
			return
		}
	}
	require.Fail(t, "the run ended", "%s of %s has not happened", kind, node)
}

// settled starts a claim, and waits until all that is not held up has ended.
func (p *place) settled(t *testing.T, id string, opts ...runtime.StartOption) {
	t.Helper()
	run := p.start(t, id, opts...)
	await(t, run.RunRef, "review", "suspended")
	await(t, run.RunRef, "bank-check", "retry")
}
