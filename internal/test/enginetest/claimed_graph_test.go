package enginetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// TestClaimedGraph claims the nodes of a run with more nodes than one call reads of a graph. The server's reply names
// the graph, and the connection adds the graph's data to each node.
func TestClaimedGraph(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		var names []string
		for i := range 70 {
			names = append(names, fmt.Sprintf("node %02d", i))
		}
		run := g.describe(names)
		for i := range run.Nodes {
			run.Nodes[i].Kind = fmt.Sprintf("kind %d", i%3)
			run.Nodes[i].Policy = fmt.Appendf(nil, `{"of":"%s"}`, run.Nodes[i].Name)
		}
		g.submit(run)
		call := func(count int) enginerpc.ClaimCall {
			return enginerpc.ClaimCall{Partition: g.p, ClaimRequest: enginerpc.ClaimRequest{
				LaneID: g.lane, WorkerID: "w", WorkerInstanceID: "w1", ClaimID: uuid.NewString(), Count: int64(count),
				LeaseTTL: time.Hour, Kinds: "\nkind 0\nkind 1\nkind 2\n",
			}}
		}

		sent := call(1)
		command, err := enginerpc.Command(g.e, sent)
		require.NoError(t, err)
		bare, err := enginerpc.Decode(g.ctx, sent, g.e.Client().Do(g.ctx, command))
		require.NoError(t, err)
		require.Len(t, bare.Executions, 1)
		assert.NotEmpty(t, bare.Executions[0].Graph)
		assert.Empty(t, bare.Executions[0].Kind)
		assert.Empty(t, bare.Executions[0].Policy)
		_, err = g.e.ReadGraph(g.ctx, enginerpc.ReadGraphCall{Partition: g.p, Graph: "none", First: 1})
		require.ErrorIs(t, err, errorcode.GraphUnknown)

		seen := make(map[string]bool)
		sent.Repeated = true
		for _, next := range []enginerpc.ClaimCall{sent, call(100)} {
			reply, err := g.e.Claim(g.ctx, next)
			require.NoError(t, err)
			for _, x := range reply.Executions {
				seen[x.Node] = true
				at := run.Ordinal(x.Node) - 1
				require.GreaterOrEqual(t, at, 0)
				assert.Equal(t, run.ExecutionID(x.Node), x.ExecutionID)
				assert.Equal(t, run.Nodes[at].Kind, x.Kind)
				assert.Equal(t, run.Nodes[at].Policy, x.Policy)
				assert.Equal(t, g.id, x.FlowID)
				assert.Equal(t, run.RunID, x.RunID)
				assert.Equal(t, run.FlowName, x.FlowName)
			}
		}
		assert.Len(t, seen, len(names))
	})
}
