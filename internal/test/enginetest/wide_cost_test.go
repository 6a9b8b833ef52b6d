package enginetest_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// serverCommands is how many commands a server has executed, also by calls of functions.
func serverCommands(ctx context.Context, t *testing.T, e *enginerpc.Conn) (total int64) {
	t.Helper()
	text, err := e.Client().Do(ctx, e.Client().B().Info().Section("commandstats").Build()).ToString()
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(m[2], 10, 64)
		require.NoError(t, err)
		if m[1] != "info" {
			total += n
		}
	}
	return total
}

// Calls on wide graphs do not need a command for each node: graphs are stored in chunks, their runs begin as copies,
// and adjacent rows are read and written together. No other test runs at the same time, since the commands are counted
// on the server that all tests share.
func TestCostOfWideGraphs(t *testing.T) {
	b := enginetest.New(t, testserver.Valkey)
	const width = 1000
	count := func(g *graph, what string, most int64, do func()) {
		t.Helper()
		before := serverCommands(g.ctx, t, g.e)
		do()
		took := serverCommands(g.ctx, t, g.e) - before
		t.Logf("%s: %d commands", what, took)
		require.LessOrEqual(t, took, most, what)
	}
	g := newGraph(t, b)
	const chunks = (width + 2 + 31) / 32
	count(g, "graph and first run", 10*chunks+40, func() { g.wide(numbered(width)) })
	again := *g.run
	for p := (keyspace.Partition{}); p != g.p; {
		var err error
		again.FlowID = newRunID()
		p, err = g.e.FlowPartition(again.FlowID)
		require.NoError(t, err)
	}
	again.RunID = string(again.FlowID)
	count(g, "second run", 30, func() { g.submit(&again) })

	g.claim()
	var more bool
	count(g, "completion of the root", 28, func() { more = g.end("root", "success") })
	require.True(t, more, "some must be left for later")
	calls := 0
	for ; more; calls++ {
		count(g, "call that continues", 70, func() {
			reply, err := g.e.Tick(g.ctx, enginerpc.TickCall{Partition: g.p, Limit: 128})
			require.NoError(t, err)
			more = reply.More
		})
	}
	require.LessOrEqual(t, calls, 8)
	count(g, "claim of 64", 2*64+40, func() {
		_, err := g.e.Claim(g.ctx, enginerpc.ClaimCall{Partition: g.p, ClaimRequest: enginerpc.ClaimRequest{
			LaneID: g.lane, WorkerID: "w", WorkerInstanceID: "w1", ClaimID: uuid.NewString(), Count: 64,
			LeaseTTL: time.Hour, Kinds: "\n" + groupKind + "\n",
		}})
		require.NoError(t, err)
	})
}
