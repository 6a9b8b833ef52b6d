package storm

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// TestTornCancel kills a server while it writes a cancel to its log, wherever in it the kill may strike. The cancel has
// happened or it has not, and it is repeated; another restart does not count any of it twice.
func TestTornCancel(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true})
			b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix(), runtime.OpenConfig{Partitions: 1})
			def := fourNodes(t)
			const places = 8
			for place := range places {
				ctx := enginetest.Context(t)
				run, err := runtime.Start(ctx, b.Client, def, 1)
				require.NoError(t, err)
				log, before := logOf(t, server)
				require.NoError(t, run.Cancel(ctx, "torn"))
				_, after := logOf(t, server)
				server.Kill()
				require.NoError(t, os.Truncate(log, before+(after-before)*int64(1+place)/(1+places)))
				server.Restart()
				require.NoError(t, run.Cancel(ctx, "torn"))
				server.Restart()
				d, err := run.Describe(ctx)
				require.NoError(t, err)
				assert.Equal(t, fabrictype.RunCancelled, d.State, "torn at %d of %d", place, places)
				assert.Zero(t, d.OpenNodes, "torn at %d of %d", place, places)
				b.Check(t, invariant.Quiescent)
			}
		})
	}
}

// fourNodes is a flow of nodes that no worker runs.
func fourNodes(t *testing.T) *flow.Definition[int, int] {
	t.Helper()
	step := activity.New("storm.torn", func(_ context.Context, n int) (int, error) { return n, nil })
	f := flow.New[int, int]("torn")
	last := flow.Node(f, "a", step, flow.Const(1))
	for _, name := range []string{"b", "c", "d"} {
		last = flow.Node(f, name, step, flow.Const(1))
	}
	flow.Return(f, last)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// logOf returns the path and the size of a server's log of commands.
func logOf(t *testing.T, s *testserver.Server) (string, int64) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(s.Dir(), "appendonlydir", "*.incr.aof"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	info, err := os.Stat(logs[0])
	require.NoError(t, err)
	return logs[0], info.Size()
}
