package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// languages has the command that runs the worker of each language.
var languages = map[string]func(t *testing.T) (program string, arguments []string){
	"python": func(*testing.T) (string, []string) { return "python3", []string{"worker.py"} },
	"typescript": func(t *testing.T) (string, []string) {
		file := filepath.Join(t.TempDir(), "worker.mjs")
		built := api.Build(api.BuildOptions{
			EntryPoints: []string{"worker.ts"}, Outfile: file, Write: true, Bundle: true, Format: api.FormatESModule,
			Platform: api.PlatformNode, Target: api.ES2022, LogLevel: api.LogLevelSilent,
		})
		require.Empty(t, built.Errors)
		require.Empty(t, built.Warnings)
		return "node", []string{file}
	},
}

// place is a server with the flow, and workers of one language.
type place struct {
	t      *testing.T
	ctx    context.Context
	client *runtime.Client
	url    string
	run    func() *exec.Cmd
	// hold is called with requests before the server is.
	mu   sync.Mutex
	hold func(*http.Request)
}

func onEngines(t *testing.T, lease string, test func(p *place)) {
	t.Parallel()
	for language, command := range languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				b.Keeper(t)
				require.NoError(t, publishFlow(enginetest.Context(t), b.Engine))
				s, err := server.New(server.Config{Engine: b.Engine, Logger: b.Logger()})
				require.NoError(t, err)
				t.Cleanup(s.Close)
				p := &place{t: t, ctx: enginetest.Context(t), client: b.Client}
				listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					p.mu.Lock()
					hold := p.hold
					p.mu.Unlock()
					if hold != nil {
						hold(r)
					}
					s.Handler().ServeHTTP(w, r)
				}))
				t.Cleanup(listener.Close)
				program, arguments := command(t)
				p.url = listener.URL
				p.run = func() *exec.Cmd {
					worker := exec.CommandContext(p.ctx, program, arguments...)
					worker.Env = append(os.Environ(), "FLOWFABRIC_SERVER="+listener.URL, "LEASE_SECONDS="+lease)
					return worker
				}
				test(p)
			})
		})
	}
}

// worker starts a worker, which is killed at the end of the test or before.
func (p *place) worker() (kill func()) {
	var output bytes.Buffer
	worker := p.run()
	worker.Stdout, worker.Stderr = &output, &output
	require.NoError(p.t, worker.Start())
	kill = sync.OnceFunc(func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	})
	p.t.Cleanup(func() {
		kill()
		if p.t.Failed() {
			p.t.Log(output.String())
		}
	})
	return kill
}

func (p *place) start(id string) *runtime.Run[string] {
	p.t.Helper()
	definition, err := report()
	require.NoError(p.t, err)
	run, err := runtime.Start(p.ctx, p.client, definition, Order{Source: "news"}, runtime.WithID(id))
	require.NoError(p.t, err)
	return run
}

// approve answers the wait of a run when it is open.
func (p *place) approve(run *runtime.Run[string]) {
	p.t.Helper()
	enginetest.Eventually(p.t, func() string {
		waits, err := run.Waitpoints(p.ctx)
		require.NoError(p.t, err)
		if len(waits) == 0 {
			return "no wait is open"
		}
		require.Equal(p.t, "Publish the report?", waits[0].Title)
		_, err = p.client.Signal(p.ctx, waits[0].Token, runtime.Signal{Name: "approve", Payload: Approval{By: "ann"}})
		require.NoError(p.t, err)
		return ""
	})
}

func (p *place) requireResult(run *runtime.Run[string]) {
	p.t.Helper()
	out, err := run.Result(p.ctx)
	require.NoError(p.t, err)
	require.Equal(p.t, "published by ann", out)
}

// A worker without Go serves the flow: with a retry, a wait for a signal and a stream.
func TestWorkerServesFlow(t *testing.T) {
	onEngines(t, "30", func(p *place) {
		p.worker()
		run := p.start("one")
		p.approve(run)
		p.requireResult(run)
		d, err := run.Describe(p.ctx)
		require.NoError(p.t, err)
		for _, node := range d.Nodes {
			attempts := 1
			if node.Name == "fetch" {
				attempts = 2
			}
			require.Equal(p.t, attempts, node.Attempts, node.Name)
		}
		var lines []string
		for frame, err := range run.Stream(p.ctx, "publish", "") {
			require.NoError(p.t, err)
			lines = append(lines, string(frame.Payload()))
		}
		require.Equal(p.t, []string{"news 1", "news 2", "news 3"}, lines)
		logged := 0
		for line, err := range run.Logs(p.ctx, "publish", runtime.LogQuery{}) {
			require.NoError(p.t, err)
			require.Equal(p.t, "publishing", line.Message)
			require.JSONEq(p.t, `{"by":"ann"}`, string(line.Attrs))
			logged++
		}
		require.Equal(p.t, 1, logged)
	})
}

// The node of a worker that is killed is finished by another worker.
func TestWorkerIsKilled(t *testing.T) {
	onEngines(t, "2", func(p *place) {
		held := make(chan struct{})
		first := sync.OnceFunc(func() { close(held) })
		p.hold = func(r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/frames") {
				_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is seen only after the body
				first()
				<-r.Context().Done()
			}
		}
		kill := p.worker()
		run := p.start("one")
		p.approve(run)
		select {
		case <-held: // the worker is in the middle of its activity
		case <-p.ctx.Done():
			require.FailNow(p.t, "no worker has published anything")
		}
		p.mu.Lock()
		p.hold = nil
		p.mu.Unlock()
		kill()
		begun := time.Now()
		p.worker()
		p.requireResult(run)
		p.t.Logf("another worker had the result %s after the first one was killed", time.Since(begun).Round(time.Millisecond))
		d, err := run.Describe(p.ctx)
		require.NoError(p.t, err)
		for _, node := range d.Nodes {
			if node.Name == "publish" {
				require.Equal(p.t, 1, node.Reclaims)
			}
		}
	})
}
