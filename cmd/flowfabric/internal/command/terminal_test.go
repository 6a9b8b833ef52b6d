package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/server"
)

func TestMain(m *testing.M) {
	if os.Getenv(actVariable) != "" {
		os.Exit(Run(context.Background(), shell.App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}, os.Args[1:]))
	}
	enginetest.Main(m)
}

// terminal runs commands on an engine, or through a server of it.
type terminal struct {
	t     *testing.T
	b     *enginetest.Bench
	where connect.Where
	open  func(context.Context, connect.Where) (*connect.Session, error)

	local    string // the address of the local server
	patience time.Duration
	now      func() time.Time
}

// unused is an address at which no server listens.
const unused = "http://127.0.0.1:1"

// onEngine returns a terminal whose commands work on the engine in this process.
func onEngine(t *testing.T, b *enginetest.Bench) terminal {
	t.Helper()
	s, err := connect.InProcess(b.Engine, connect.Where{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	open := func(context.Context, connect.Where) (*connect.Session, error) {
		return &connect.Session{Client: s.Client, Engine: s.Engine, Close: func() {}}, nil
	}
	return terminal{t: t, b: b, where: connect.Where{URL: "valkey://engine"}, open: open}
}

// onServer returns a terminal whose commands call a server of the engine.
func onServer(t *testing.T, b *enginetest.Bench) terminal {
	t.Helper()
	s, err := server.New(server.Config{Engine: b.Engine, RequestsPerSecond: -1})
	require.NoError(t, err)
	listener := httptest.NewServer(s.Handler())
	t.Cleanup(listener.Close)
	t.Cleanup(s.Close)
	return terminal{t: t, b: b, where: connect.Where{URL: listener.URL}, open: connect.Open}
}

// eachWay runs a test on each engine, directly and through a server.
func eachWay(t *testing.T, test func(t *testing.T, x terminal)) {
	t.Helper()
	for name, way := range map[string]func(*testing.T, *enginetest.Bench) terminal{"engine": onEngine, "server": onServer} {
		t.Run(name, func(t *testing.T) {
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) { test(t, way(t, b)) })
		})
	}
}

// environment has no profiles, and no URL except the terminal's.
func (x terminal) environment(name string) string {
	switch name {
	case "FLOWFABRIC_URL":
		return x.where.URL
	case "FLOWFABRIC_CONFIG":
		return "/nonexistent/config.yaml"
	}
	return ""
}

func (x terminal) runWith(stdin string, args ...string) (code int, stdout, stderr string) {
	x.t.Helper()
	var out, errs bytes.Buffer
	a := shell.App{
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Env: x.environment, Open: x.open, Local: cmp.Or(x.local, unused),
		Patience: x.patience, Now: x.now,
	}
	code = Run(enginetest.Context(x.t), a, args)
	return code, out.String(), errs.String()
}

func (x terminal) run(args ...string) (code int, stdout, stderr string) {
	x.t.Helper()
	return x.runWith("", args...)
}

// ok runs a command that must succeed.
func (x terminal) ok(args ...string) string {
	x.t.Helper()
	code, stdout, stderr := x.run(args...)
	require.Zero(x.t, code, "%v: %s", args, stderr)
	return stdout
}

// fails runs a command that must end with an exit code, and returns its error.
func (x terminal) fails(want int, args ...string) string {
	x.t.Helper()
	code, stdout, stderr := x.run(args...)
	require.Equal(x.t, want, code, "%v: %s%s", args, stdout, stderr)
	require.True(x.t, strings.HasPrefix(stderr, "flowfabric: "), "%v: %s", args, stderr)
	return stderr
}

// lines are the JSON objects that a command prints.
func (x terminal) lines(args ...string) []map[string]any {
	x.t.Helper()
	var list []map[string]any
	for line := range strings.Lines(x.ok(append([]string{"-o", "jsonl"}, args...)...)) {
		var value map[string]any
		require.NoError(x.t, json.Unmarshal([]byte(line), &value), line)
		list = append(list, value)
	}
	return list
}

// nowhere is a terminal whose commands must not connect.
func nowhere(t *testing.T) terminal {
	t.Helper()
	return terminal{t: t, where: connect.Where{URL: "valkey://engine"}, open: func(context.Context, connect.Where) (*connect.Session, error) {
		t.Error("the engine is opened")
		return nil, shell.ErrUsage
	}}
}

func embeddedBench(t *testing.T) *enginetest.Bench {
	t.Helper()
	enginetest.Only(t, testserver.Embedded)
	return enginetest.New(t, testserver.Embedded)
}
