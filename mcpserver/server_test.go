package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/mcpserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// model is a client of the protocol, like the client of a program with a language model.
type model struct {
	t       *testing.T
	session *mcp.ClientSession
	client  *runtime.Client
}

func newModel(t *testing.T, config mcpserver.Config) *model {
	t.Helper()
	double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	f := flow.New[int, int]("twice", flow.Describe("Doubles a number."))
	flow.Return(f, flow.Node(f, "double", double, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	local, err := runtime.OpenLocal(t.Context(), runtime.LocalConfig{Activities: []activity.Handler{double}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = local.Close() })
	g := flow.New[int, int]("asks")
	flow.Return(g, flow.Waitpoint[int](g, "ask", flow.After(flow.Node(g, "double", double, g.Input()))))
	asks, err := g.Build()
	require.NoError(t, err)
	require.NoError(t, local.Client().Publish(t.Context(), runtime.Publication{Flow: def}, runtime.Publication{Flow: asks}))
	srv, err := server.New(server.Config{Engine: local.Engine()})
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	config.Client, err = srv.ClientAs("model")
	require.NoError(t, err)
	tools, err := mcpserver.New(config)
	require.NoError(t, err)
	serverSide, clientSide := mcp.NewInMemoryTransports()
	serving, err := tools.Connect(t.Context(), serverSide, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = serving.Close() })
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), clientSide, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return &model{t, session, local.Client()}
}

// call calls a tool, and returns its text and whether it failed.
func (m *model) call(tool, arguments string) (string, bool) {
	m.t.Helper()
	result, err := m.session.CallTool(m.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	require.NoError(m.t, err)
	require.Len(m.t, result.Content, 1)
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

func (m *model) ok(tool, arguments string) string {
	m.t.Helper()
	text, failed := m.call(tool, arguments)
	require.False(m.t, failed, text)
	return text
}

func (m *model) fails(tool, arguments, want string) {
	m.t.Helper()
	text, failed := m.call(tool, arguments)
	require.True(m.t, failed, text)
	require.Contains(m.t, text, want)
}

func (m *model) tools() map[string]*mcp.Tool {
	m.t.Helper()
	found := map[string]*mcp.Tool{}
	for tool, err := range m.session.Tools(m.t.Context(), nil) {
		require.NoError(m.t, err)
		found[tool.Name] = tool
	}
	return found
}

// By default, tools only read.
func TestToolsOnlyRead(t *testing.T) {
	t.Parallel()
	m := newModel(t, mcpserver.Config{})
	tools := m.tools()
	for _, op := range httpapi.Operations() {
		tool := tools[op.Name]
		require.Equal(t, op.Effect == httpapi.Reads && op.Group != "tasks", tool != nil, op.Name)
		if tool != nil {
			require.True(t, tool.Annotations.ReadOnlyHint, op.Name)
			require.Equal(t, "object", tool.InputSchema.(map[string]any)["type"], op.Name)
		}
	}
	_, err := m.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "cancel-run", Arguments: json.RawMessage(`{"flow":"a","run":"b"}`)})
	require.Error(t, err)
}

// A model that may change things starts a run, follows it, finds it and reads its values.
func TestModelRunsFlow(t *testing.T) {
	t.Parallel()
	m := newModel(t, mcpserver.Config{Allow: "changes"})
	tools := m.tools()
	require.NotContains(t, tools, "create-token")
	require.NotContains(t, tools, "purge-run")
	require.NotContains(t, tools, "claim-task")
	start := tools["start-run"].InputSchema.(map[string]any)
	require.ElementsMatch(t, []any{"flow", "body"}, start["required"])
	require.Contains(t, m.ok("list-flows", `{}`), "Doubles a number")
	require.JSONEq(t, `{"flow":"twice","run":"r"}`, m.ok("start-run", `{"flow":"twice","body":{"id":"r","input":21,"tags":{"asked.by":"model"}}}`))
	require.Contains(t, m.ok("get-result", `{"flow":"twice","run":"r","wait":"30s"}`), `"json":42`)
	require.Contains(t, m.ok("list-runs", `{"query":{"flow":"twice","state":["succeeded"],"tag.asked.by":"model"},"limit":5}`), `"run":"r"`)
	require.Contains(t, m.ok("get-run", `{"flow":"twice","run":"r","values":true}`), `"completed"`)
	require.Contains(t, m.ok("follow-run", `{"flow":"twice","run":"r"}`), "flow_success")
	require.Contains(t, m.ok("count-runs", `{"by":["flow","state"]}`), `"runs":1`)
	require.Equal(t, "{}", m.ok("pause-lane", `{"lane":"slow","body":{"reason":"quiet"}}`))
	require.Contains(t, m.ok("list-audit", `{"actor":"model"}`), "pause_lane")

	m.fails("get-run", `{"flow":"twice"}`, `argument "run" is missing`)
	m.fails("get-run", `{"flow":"twice","run":"r","nonsense":1}`, `no argument "nonsense"`)
	m.fails("get-run", `{"flow":"twice","run":7}`, `argument "run"`)
	m.fails("get-run", `{"flow":"twice","run":"nobody"}`, "no such run")
	m.fails("start-run", `{"flow":"twice","body":{"input":"x"}}`, "integer")
	m.fails("start-run", `{"flow":"twice","body":{"nonsense":1}}`, "nonsense")
	m.fails("list-runs", `{"query":{"state":"lost"}}`, "must be one of running")
}

// A model starts runs with a key, a throttle, a debounce or a signal, as requests over HTTP do, and its tools say how.
func TestModelStartsWithOptions(t *testing.T) {
	t.Parallel()
	m := newModel(t, mcpserver.Config{Allow: "changes"})
	body := m.tools()["start-run"].InputSchema.(map[string]any)["properties"].(map[string]any)["body"].(map[string]any)
	fields := body["properties"].(map[string]any)
	for _, option := range []string{"key", "throttle", "debounce", "signal"} {
		properties, _ := fields[option].(map[string]any)["properties"].(map[string]any)
		require.NotEmpty(t, properties, option)
		if option == "signal" {
			require.Contains(t, properties, "payload")
			continue
		}
		require.NotEmpty(t, properties["key"].(map[string]any)["description"], option)
	}
	run := func(text string) string {
		var started api.StartedRun
		require.NoError(t, json.Unmarshal([]byte(text), &started))
		require.NotEmpty(t, started.Run)
		return started.Run
	}
	start := func(rest string) string { return `{"flow":"asks","body":{"input":1,` + rest + `}}` }
	first := run(m.ok("start-run", start(`"key":{"key":"k"}`)))
	require.Equal(t, first, run(m.ok("start-run", start(`"key":{"key":"k","when_taken":"join"}`))))
	m.fails("start-run", start(`"key":{"key":"k"}`), `of key "k" is open`)
	m.ok("start-run", start(`"throttle":{"key":"t","starts":1,"per":"1h","reject":true}`))
	m.fails("start-run", start(`"throttle":{"key":"t","starts":1,"per":"1h","reject":true}`), `the throttle of key "t" has room at`)
	first = run(m.ok("start-run", start(`"debounce":{"key":"d","quiet":"1h"}`)))
	require.Equal(t, first, run(m.ok("start-run", start(`"debounce":{"key":"d","quiet":"1h"}`))))
	signal := start(`"id":"s","signal":{"node":"ask","name":"answer","payload":1}`)
	require.Contains(t, m.ok("start-run", signal), `"delivery"`)
	require.Contains(t, m.ok("start-run", signal), `"existed":true`)
	m.fails("start-run", start(`"key":{"key":"k"},"signal":{"node":"ask","name":"answer"}`), "invalid")
	require.Contains(t, m.ok("list-audit", `{"action":"answer_wait"}`), `"name":"asks/s/ask"`)
	require.Contains(t, m.ok("signal-run", `{"flow":"asks","run":"`+first+`","body":{"node":"ask","name":"answer","payload":2}}`), "outcome")
	require.Contains(t, m.ok("list-audit", `{"action":"answer_wait"}`), `"name":"asks/`+first+`/ask"`)
}

func TestReplyIsBounded(t *testing.T) {
	t.Parallel()
	m := newModel(t, mcpserver.Config{Allow: "destroys", MaxReply: 200})
	require.Contains(t, m.tools(), "purge-run")
	m.fails("list-keeper-tasks", `{}`, "the limit is 200")
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	client, err := httpclient.New("http://localhost:1", httpclient.Config{})
	require.NoError(t, err)
	for _, config := range []mcpserver.Config{{}, {Client: client, Allow: "all"}, {Client: client, MaxReply: -1}} {
		_, err := mcpserver.New(config)
		require.ErrorIs(t, err, mcpserver.ErrInvalid)
	}
}

// Every operation has a schema that names its parameters.
func TestSchemas(t *testing.T) {
	t.Parallel()
	m := newModel(t, mcpserver.Config{Allow: "destroys"})
	for name, tool := range m.tools() {
		op, ok := httpapi.Find(name)
		require.True(t, ok)
		properties, _ := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
		for part := range strings.SplitSeq(op.Path, "/") {
			if parameter, ok := strings.CutPrefix(part, "{"); ok {
				require.Contains(t, properties, strings.TrimSuffix(parameter, "}"), name)
			}
		}
		require.NotEmpty(t, tool.Description)
	}
}
