package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest/runcheck"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// startLarge runs a flow of nodes with results of the given size, all of which one node takes.
func startLarge(t *testing.T, b *enginetest.Bench, nodes, size int) {
	t.Helper()
	large := activity.New("large", func(context.Context, int) (string, error) { return strings.Repeat("x", size), nil })
	count := activity.New("count", func(_ context.Context, in []string) (int, error) { return len(in), nil })
	f := flow.New[int, int]("large")
	var results []flow.Ref[string]
	for i := range nodes {
		results = append(results, flow.Node(f, "n"+strconv.Itoa(i), large, f.Input()))
	}
	flow.Return(f, flow.Node(f, "all", count, flow.List(results...)))
	def, err := f.Build()
	require.NoError(t, err)
	run, err := runtime.Start(enginetest.Context(t), b.Client, def, 1, runtime.WithID("one"))
	require.NoError(t, err)
	pool := b.Worker(t, def.Handlers())
	_, err = run.Result(enginetest.Context(t))
	require.NoError(t, err)
	require.NoError(t, pool.Stop())
}

// allocated returns how many bytes the process allocates while a function runs.
func allocated(do func()) int {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	do()
	goruntime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// A small reply reads no values, and a large one has bounded parts. No other test runs at the same time, since the
// test counts the allocations of the process.
func TestLargeRuns(t *testing.T) {
	const nodes, size = 24, 1_000_000
	p := newPlaceOf(t, enginetest.New(t, testserver.Embedded), withPeople)
	startLarge(t, p.bench, nodes, size)
	viewer, operator := person("ann", "viewers", ""), person("bob", "operators", "")

	var node fabrictype.Node
	require.Less(t, allocated(func() { p.do("GET", "/runs/large/one/nodes/all", nil, &node, viewer...) }), 4*size)
	require.NotEmpty(t, node.State)
	require.Equal(t, http.StatusForbidden,
		p.do("GET", "/runs/large/one/nodes/all?values=true", nil, nil, viewer...).StatusCode)
	p.do("GET", "/runs/large/one/nodes/all?values=true", nil, &node, operator...)
	require.True(t, node.Input.Truncated)

	found := 0
	for cursor := ""; ; {
		var page fabrictype.RunDetail
		p.do("GET", "/runs/large/one?values=true&value_bytes=1048576&cursor="+cursor, nil, &page, operator...)
		require.LessOrEqual(t, len(page.Nodes), 8)
		found += len(page.Nodes)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, nodes+1, found)

	// An export has everything.
	request, err := http.NewRequest("GET", p.url+httpapi.Prefix+"/runs/large/one/export", nil)
	require.NoError(t, err)
	for i := 0; i < len(operator); i += 2 {
		request.Header.Set(operator[i], operator[i+1])
	}
	reply, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer reply.Body.Close()
	require.Equal(t, http.StatusOK, reply.StatusCode)
	text, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	var exported httpapi.ExportedRun
	require.NoError(t, json.Unmarshal(text, &exported))
	var lines strings.Builder
	for _, line := range exported.Lines {
		require.Less(t, len(line), 12<<20)
		lines.Write(line)
		lines.WriteByte('\n')
	}
	results := 0
	for d, err := range runcheck.Read(strings.NewReader(lines.String())) {
		require.NoError(t, err)
		for _, n := range d.Nodes {
			if n.Name != "all" {
				require.Len(t, n.Result.Bytes(), size+2)
				results++
			}
		}
	}
	require.Equal(t, nodes, results)

	var problem api.Problem
	require.Equal(t, http.StatusNotFound, p.do("GET", "/runs/large/none/export", nil, &problem, operator...).StatusCode)
	require.Equal(t, "run_not_found", problem.Code)
}
