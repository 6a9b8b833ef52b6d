package command

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/serve"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// serveUntilEnd runs a command that serves until the test ends, and returns its first line.
func serveUntilEnd(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(enginetest.Context(t))
	read, write := io.Pipe()
	ended := make(chan int)
	a := shell.App{Stdin: strings.NewReader(""), Stdout: write, Stderr: io.Discard, Env: func(name string) string { return env[name] }}
	go func() { defer close(ended); defer write.Close(); ended <- Run(ctx, a, args) }()
	reader := bufio.NewReader(read)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	line = strings.TrimPrefix(line, "Console   ")
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	t.Cleanup(func() {
		stop()
		require.Zero(t, <-ended)
	})
	return strings.TrimSpace(line)
}

// A person starts the demonstration, finds the run that waits, answers it, and reads the result.
func TestDev(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	x := terminal{t: t, open: connect.Open}
	x.where.URL = serveUntilEnd(t, nil, "dev", "--demo", "--listen", "127.0.0.1:0", "--engine-listen", "off")
	require.Contains(t, x.ok("run", "result", "demo-hello/first", "--wait"), "Hello, world!")
	enginetest.Eventually(t, func() string {
		if len(x.lines("inbox", "--audience", "shop")) == 0 {
			return "no wait is open"
		}
		return ""
	})
	require.Equal(t, "resumed\n", x.ok("answer", "demo-order/first", "--approve", "--comment", "in stock"))
	x.ok("run", "wait", "demo-order/first")
	require.Equal(t, "\"sent to Ada for 35\"\n", x.ok("run", "result", "demo-order/first"))
	require.Contains(t, x.ok("flow", "list", "-o", "name"), "demo-hello\ndemo-import\n")
	require.Contains(t, x.ok("top", "--count", "1"), "RUNNING")
}

// Programs and commands reach the engine of the development server at its port, and find no fault in its memory.
func TestDevListensAsAnEngine(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	ctx, stop := context.WithCancel(enginetest.Context(t))
	read, write := io.Pipe()
	ended := make(chan int, 1)
	a := shell.App{Stdin: strings.NewReader(""), Stdout: write, Stderr: io.Discard, Env: func(string) string { return "" }}
	go func() {
		ended <- Run(ctx, a, []string{"dev", "--listen", "localhost:0", "--engine-listen", "127.0.0.1:0"})
		write.Close()
	}()
	reader := bufio.NewReader(read)
	console, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^Console   http://localhost:\d+\n$`, console)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	match := regexp.MustCompile(`^Engine    export FLOWFABRIC_URL=(valkey://localhost:\d+)   # for your workers and clients\n$`).FindStringSubmatch(line)
	require.NotNil(t, match, line)
	x := terminal{t: t, open: connect.Open}
	x.where.URL = match[1]
	x.ok("run", "list")
	var log strings.Builder
	engine, err := runtime.Open(ctx, match[1], runtime.OpenConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.NoError(t, engine.Close())
	require.NotContains(t, log.String(), "misconfigured")
	findings := x.ok("doctor", "-o", "name")
	require.Contains(t, findings, "engine.in_memory")
	require.NotContains(t, findings, "persistence.off")
	stop()
	require.Zero(t, <-ended)
}

// A server with tokens refuses callers without one, and those who lack a right.
func TestServerWithTokens(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	const admin = "an-admin-token-of-the-test"
	dir := "embedded:" + t.TempDir()
	b := serveDirectory(t, dir)
	address := serveUntilEnd(t, map[string]string{serve.AdminTokenVariable: admin}, "server", "--url", b, "--tokens", "--keeper", "--listen", "127.0.0.1:0")
	caller := func(token string, args ...string) (int, string, string) {
		var out, errs strings.Builder
		env := map[string]string{"FLOWFABRIC_URL": address, "FLOWFABRIC_TOKEN": token}
		a := shell.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: func(name string) string { return env[name] }}
		code := Run(enginetest.Context(t), a, args)
		return code, out.String(), errs.String()
	}
	code, _, _ := caller("", "run", "list")
	require.Equal(t, shell.ExitNotAllowed, code)
	code, token, stderr := caller(admin, "token", "create", "ann", "--role", "viewer")
	require.Zero(t, code, stderr)
	code, _, _ = caller(strings.TrimSpace(token), "run", "list")
	require.Zero(t, code)
	code, _, stderr = caller(strings.TrimSpace(token), "lane", "pause", "x")
	require.Equal(t, shell.ExitNotAllowed, code)
	require.Contains(t, stderr, "operate")
}

// serveDirectory makes an engine in a directory and returns its URL.
func serveDirectory(t *testing.T, url string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan int)
	a := shell.App{Stdin: strings.NewReader(""), Stdout: write, Stderr: io.Discard, Env: func(string) string { return "" }}
	go func() {
		ended <- Run(ctx, a, []string{"dev", "--url", url, "--listen", "127.0.0.1:0", "--engine-listen", "off"})
		write.Close()
	}()
	_, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	stop()
	require.Zero(t, <-ended)
	return url
}

// A server understands the environment of other FlowFabric servers; flags count more.
func TestServerReadsTheEnvironment(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		if b.Kind == testserver.Embedded {
			t.Skip("the variables name a server")
		}
		at, err := url.Parse(b.URL)
		require.NoError(t, err)
		const token = "a-token-from-the-environment"
		env := map[string]string{
			"FF_HOST": at.Hostname(), "FF_PORT": at.Port(), "FF_API_TOKEN": token, "FF_LISTEN_ADDR": "127.0.0.1:1", "FF_FLOW_PARTITIONS": "4",
		}
		prefix := enginetest.NewPrefix()
		address := serveUntilEnd(t, env, "server", "--prefix", prefix, "--listen", "127.0.0.1:0")
		reply, err := http.Get(address + "/v1/executions?partition=0")
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		require.Equal(t, http.StatusUnauthorized, reply.StatusCode)
		request, err := http.NewRequestWithContext(t.Context(), "GET", address+"/v1/executions?partition=3", nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		reply, err = http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		require.Equal(t, http.StatusOK, reply.StatusCode)
	})
	var errs strings.Builder
	env := map[string]string{"FF_HOST": "localhost", "FF_PORT": "many"}
	a := shell.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errs, Env: func(name string) string { return env[name] }}
	require.Equal(t, shell.ExitUsage, Run(t.Context(), a, []string{"server"}))
	require.Contains(t, errs.String(), "FF_PORT must be a number")
}

// Addresses and engines that cannot be served are refused.
func TestServeRefusesInvalidConfig(t *testing.T) {
	t.Parallel()
	x := nowhere(t)
	x.where.URL = ""
	require.Contains(t, x.fails(shell.ExitUsage, "server"), "no engine is named")
	x.fails(shell.ExitUsage, "keeper")
	x.fails(shell.ExitUsage, "--url", "embedded:"+t.TempDir(), "dev", "--listen", "0.0.0.0:0")
	require.Contains(t, x.fails(shell.ExitUsage, "dev", "--listen", "127.0.0.1:0", "--engine-listen", "0.0.0.0:0"),
		"must be a loopback address")
	require.Contains(t, x.fails(shell.ExitUsage, "--url", "valkey://x", "dev", "--engine-listen", "127.0.0.1:0"), "embedded engine")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, args := range [][]string{
		{"--listen", taken.Addr().String(), "--engine-listen", "off"}, {"--listen", "127.0.0.1:0", "--engine-listen", taken.Addr().String()},
	} {
		text := x.fails(shell.ExitFailed, append([]string{"dev"}, args...)...)
		require.Contains(t, text, taken.Addr().String()+": another program has this port")
	}
}

// A program with a language model runs the command and calls a tool.
func TestMCP(t *testing.T) {
	t.Parallel()
	x := onServer(t, embeddedBench(t))
	x.ok("lane", "pause", "slow", "--reason", "quiet")
	fromModel, toCommand := io.Pipe()
	fromCommand, toModel := io.Pipe()
	ctx, stop := context.WithCancel(enginetest.Context(t))
	ended := make(chan int, 1)
	go func() {
		a := shell.App{Stdin: fromModel, Stdout: toModel, Stderr: io.Discard, Env: x.environment, Open: x.open}
		ended <- Run(ctx, a, []string{"mcp"})
		_ = toModel.Close()
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: fromCommand, Writer: toCommand}, nil)
	require.NoError(t, err)
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "list-pauses", Arguments: json.RawMessage("{}")})
	require.NoError(t, err)
	require.Contains(t, result.Content[0].(*mcp.TextContent).Text, "quiet")
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "resume-lane", Arguments: json.RawMessage(`{"lane":"slow"}`)})
	require.Error(t, err, "tools only read")
	require.NoError(t, session.Close())
	require.Zero(t, <-ended)
	stop()
}
