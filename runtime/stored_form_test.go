package runtime

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

var update = flag.Bool("update-stored-form", false, "write the fixtures of the current stored form")

type fixtureIn struct {
	Path string `json:"path"`
	Part int    `json:"part"`
}

// fixtureFlow uses everything that is stored with a node.
func fixtureFlow(t *testing.T) *flow.Definition[string, int] {
	scan := activity.New("scan", func(context.Context, string) (string, error) { return "", nil },
		activity.Lane("io"), activity.StartToClose(time.Minute), activity.HeartbeatTimeout(5*time.Second),
		activity.ScheduleToStart(time.Hour), activity.Priority(7), activity.Capabilities("disk"))
	part := activity.New("part", func(context.Context, fixtureIn) (int, error) { return 0, nil },
		activity.Retry(activity.RetryPolicy{First: 250 * time.Millisecond, Attempts: 3, Factor: 1}))
	sum := activity.New("sum", func(context.Context, []int) (int, error) { return 0, nil }, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	f := flow.New[string, int]("fixture", flow.Deadline(2*time.Hour), flow.Tag("team.name", "census"))
	root := flow.Node(f, "scan", scan, f.Input(), flow.Tag("cost.centre", "7"))
	parts := make([]flow.Ref[int], 2)
	for i := range parts {
		parts[i] = flow.Node(f, "part-"+string(rune('a'+i)), part,
			flow.Struct[fixtureIn](flow.Field("path", root), flow.Field("part", flow.Const(i))))
	}
	flow.Return(f, flow.Node(f, "sum", sum, flow.List(parts...), flow.After(root)))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// storedForm is the content of the fixtures: all data that a later version must still understand.
type storedForm struct {
	GraphHash  string                     `json:"graph_hash"`
	Definition json.RawMessage            `json:"definition"`
	FlowID     enginecore.FlowID          `json:"flow_id"`
	InputHash  string                     `json:"input_hash"`
	Executions map[string]string          `json:"executions"`
	Policies   map[string]json.RawMessage `json:"policies"`
	// Edges are the lists of each node's edges, from its upstreams and to its downstreams, as the library stores them.
	Edges map[string][2][]byte `json:"edges"`
}

func currentStoredForm(t *testing.T) storedForm {
	def := fixtureFlow(t)
	compiled, err := submit.CompileFlow(flowgraph.Of(def.Internal()), def.Hash())
	require.NoError(t, err)
	input, err := def.EncodeInput("/src")
	require.NoError(t, err)
	id := keyspace.FlowIDFor("default", "fixture", "run-1")
	plan := &submit.RunPlan{
		Flow: "fixture", Run: "run-1", FlowID: id, Partition: keyspace.Partition{Family: keyspace.FlowFamily, Index: 7},
		Compiled: compiled, Input: input,
	}
	form := storedForm{
		GraphHash: def.Hash(), Definition: compiled.Definition, FlowID: id, InputHash: submit.HashInput(input),
		Executions: map[string]string{}, Edges: map[string][2][]byte{}, Policies: map[string]json.RawMessage{},
	}
	for _, n := range compiled.Nodes {
		form.Executions[n.Name] = string(plan.ExecutionID(n.Name))
		form.Policies[n.Name] = json.RawMessage(n.Policy)
		form.Edges[n.Name] = [2][]byte{n.Ups, n.Downs}
	}
	return form
}

// Data of any released version must be written the same way now, for a run that is submitted again after an upgrade
// must match itself, and must be readable.
func TestStoredForm_EqualsTheReleases(t *testing.T) {
	t.Parallel()
	current, err := json.MarshalIndent(currentStoredForm(t), "", "  ")
	require.NoError(t, err)
	name := filepath.Join("testdata", "stored-form", "v3.json")
	if *update {
		require.NoError(t, os.WriteFile(name, append(current, '\n'), 0o644))
	}
	fixtures, err := filepath.Glob(filepath.Join("testdata", "stored-form", "v*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, fixtures)
	for _, fixture := range fixtures {
		data, err := os.ReadFile(fixture)
		require.NoError(t, err)
		require.JSONEq(t, string(data), string(current), fixture)
		var form storedForm
		require.NoError(t, json.Unmarshal(data, &form))
		graph, err := flowgraph.ParseGraph(form.Definition)
		require.NoError(t, err, fixture)
		require.Equal(t, form.GraphHash, graph.Hash())
		for i := range graph.Nodes {
			plan, err := submit.DecodePolicy(form.Policies[graph.Nodes[i].Name])
			require.NoError(t, err, fixture)
			require.Equal(t, graph.Nodes[i].Input, *plan.Input)
			require.Equal(t, graph.Nodes[i].StartToClose, plan.StartToClose)
			require.Equal(t, graph.Nodes[i].HeartbeatTimeout, plan.Heartbeat)
		}
	}
}
