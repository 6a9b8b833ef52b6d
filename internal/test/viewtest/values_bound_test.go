package viewtest

import (
	"context"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// runOfLargeResults returns a run of nodes with results of that size and a node that takes them all.
func runOfLargeResults(t *testing.T, b *enginetest.Bench, id string, nodes, size int) *runtime.RunRef {
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
	run, err := runtime.Start(enginetest.Context(t), b.Client, def, 1, runtime.WithID(id))
	require.NoError(t, err)
	pool := b.KeepingWorker(t, def.Handlers())
	_, err = run.Result(enginetest.Context(t))
	require.NoError(t, err)
	require.NoError(t, pool.Stop())
	return b.Client.Run("large", id)
}

// allocated returns how many bytes a function allocates.
func allocated(do func()) int {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	do()
	goruntime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// A description reads values only on request, and has a bound for all of them together. The test does not run in
// parallel with others, since it measures allocations of the process.
func TestSumsOfValuesAreBounded(t *testing.T) {
	const nodes, size = 24, 1_000_000
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	run := runOfLargeResults(t, b, "one", nodes, size)
	other := runOfLargeResults(t, b, "two", nodes, size)

	var n *fabrictype.Node
	var err error
	require.Less(t, allocated(func() { n, err = run.DescribeNode(ctx, "all") }), size, "no value is read")
	require.NoError(t, err)
	require.Nil(t, n.Input)
	n, err = run.DescribeNode(ctx, "all", runtime.DescribeOptions{Values: true, ValueBytes: describe.MaxSumBytes})
	require.NoError(t, err)
	require.Equal(t, -1, n.Input.Size, "it is composed of more than is read")
	require.True(t, n.Input.Truncated)
	require.Equal(t, "24", string(n.Result.Bytes()))
	n, err = run.DescribeNode(ctx, "n3", runtime.DescribeOptions{Values: true, ValueBytes: describe.MaxSumBytes})
	require.NoError(t, err)
	require.Len(t, n.Result.Bytes(), size+2)
	_, err = run.DescribeNode(ctx, "n3", runtime.DescribeOptions{Values: true, ValueBytes: describe.MaxSumBytes + 1})
	require.ErrorIs(t, err, runtime.ErrInvalid)

	// Pages end where their values are as many as one description has.
	found := map[string]bool{}
	for cursor := ""; ; {
		d, err := run.Describe(ctx, runtime.DescribeOptions{Cursor: cursor, Nodes: describe.MaxPage, Values: true, ValueBytes: describe.MaxValueBytes})
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunSucceeded, d.State)
		require.Equal(t, "24", string(d.Result.Bytes()))
		require.LessOrEqual(t, len(d.Nodes), 8)
		for _, n := range d.Nodes {
			require.False(t, found[n.Name], n.Name)
			found[n.Name] = true
			if n.Name != "all" {
				require.Len(t, n.Result.Bytes(), size+2, n.Name)
				require.False(t, n.Result.Truncated)
			}
		}
		if cursor = d.Next; cursor == "" {
			break
		}
	}
	require.Len(t, found, nodes+1)

	// Without pages, the last values are truncated.
	d, err := run.Describe(ctx, runtime.DescribeOptions{Values: true, ValueBytes: describe.MaxValueBytes})
	require.NoError(t, err)
	require.Len(t, d.Nodes, nodes+1)
	sum, truncated := 0, 0
	for _, n := range d.Nodes {
		if n.Result != nil {
			sum += len(n.Result.Bytes())
		}
		if n.Result == nil || n.Result.Truncated {
			truncated++
		}
	}
	require.LessOrEqual(t, sum, describe.MaxSumBytes)
	require.Greater(t, truncated, nodes/2)

	diff, err := run.Diff(ctx, other)
	require.NoError(t, err)
	require.True(t, diff.Same())
}
