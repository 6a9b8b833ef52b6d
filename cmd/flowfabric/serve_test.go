package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// serving runs a command that serves until the test ends, and returns its address.
func serving(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(enginetest.Context(t))
	read, write := io.Pipe()
	ended := make(chan int)
	p := program{stdout: write, stderr: io.Discard}
	go func() { defer close(ended); defer write.Close(); ended <- p.run(ctx, args) }()
	reader := bufio.NewReader(read)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
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
	client, err := httpclient.New(serving(t, "dev", "-demo", "-listen", "127.0.0.1:0"), httpclient.Config{})
	require.NoError(t, err)
	ctx := enginetest.Context(t)
	first := api.RunName{Flow: "demo-order", Run: "first"}
	enginetest.Eventually(t, enginetest.Patience, func() string {
		waits, err := httpclient.Call(ctx, client, api.ListWaits, api.ListWaitsInput{})
		require.NoError(t, err)
		if len(waits.Items) == 0 {
			return "no wait is open"
		}
		return ""
	})
	answer := api.SignalRunInput{RunName: first}
	answer.Body.Node, answer.Body.Name, answer.Body.Payload = "approve", "answer", []byte(`{"approve":true}`)
	delivery, err := httpclient.Call(ctx, client, api.SignalRun, answer)
	require.NoError(t, err)
	require.Equal(t, "resumed", delivery.Outcome)
	in := api.GetResultInput{RunName: first, Wait: api.Duration{Duration: resultWait}}
	for {
		result, err := httpclient.Call(ctx, client, api.GetResult, in)
		require.NoError(t, err)
		if result.State != "running" {
			require.Equal(t, "succeeded", result.State)
			require.JSONEq(t, `"sent to Ada for 35"`, string(result.Value.JSON))
			return
		}
	}
}

// What makes no sense is refused before anything is opened.
func TestServingIsChecked(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"server"}, {"dev", "more"}, {"-url", "valkey://localhost:1", "dev", "-data", "x"},
		{"-url", "embedded:" + t.TempDir(), "dev", "-listen", "0.0.0.0:0"},
		{"-url", "valkey://localhost:1", "server", "-tls-cert", "x"},
		{"token", "create"}, {"token", "make", "x"}, {"start", "flow", "-input", "{"},
	} {
		p := program{stdout: io.Discard, stderr: io.Discard, open: open}
		require.Equal(t, exitUsage, p.run(enginetest.Context(t), args), "%v", args)
	}
}

func TestTokenCommands(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		x := terminal{t, b}
		text := strings.TrimSpace(x.ok("token", "create", "ann", "-role", "operator", "-flows", "billing-*"))
		require.True(t, strings.HasPrefix(text, "ffk_"), text)
		list := x.lines("token", "list")
		require.Len(t, list, 1)
		require.Equal(t, "ann", list[0]["name"])
		require.NotContains(t, x.ok("token", "list", "-json"), text)
		code, _, _ := x.run("token", "create", "ann")
		require.Equal(t, exitFailure, code)
		code, _, stderr := x.run("token", "create", "bob", "-role", "king")
		require.Equal(t, exitUsage, code, stderr)
		x.ok("token", "delete", "ann")
		require.Empty(t, x.lines("token", "list"))
	})
}
