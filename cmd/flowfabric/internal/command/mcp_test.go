package command

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

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
