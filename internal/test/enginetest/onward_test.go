package enginetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// whole submits a managed flow with one call. The nodes come in the order given.
func (g *graph) whole(nodes []string, edges ...[2]string) {
	g.t.Helper()
	g.submit(g.wholeCall(nodes, edges...))
}

func (g *graph) submit(call enginerpc.SubmitFlowCall) {
	g.t.Helper()
	reply, err := g.e.SubmitFlow(g.ctx, call)
	require.NoError(g.t, err)
	require.False(g.t, reply.More)
}

// wholeCall is the call that whole sends.
func (g *graph) wholeCall(nodes []string, edges ...[2]string) enginerpc.SubmitFlowCall {
	upstreams := make(map[string]int64)
	call := enginerpc.SubmitFlowCall{
		Partition: g.p, FlowID: g.id, FlowName: "whole", RunID: string(g.id), Namespace: "n", GraphHash: "g", InputHash: "i",
		Definition: []byte("{}"), NodeTotal: int64(len(nodes)), EdgeTotal: int64(len(edges)), Last: true,
		ResultExecutionID: g.node(nodes[len(nodes)-1]),
	}
	for _, edge := range edges {
		upstreams[edge[1]]++
		call.Edges = append(call.Edges, enginerpc.SubmitFlowEdge{
			EdgeID: g.edge(edge[0], edge[1]), UpstreamExecutionID: g.node(edge[0]), DownstreamExecutionID: g.node(edge[1]),
			DependencyKind: "success_only", InputName: edge[0],
		})
	}
	for _, name := range nodes {
		call.Nodes = append(call.Nodes, enginerpc.SubmitFlowNode{
			ExecutionID: g.node(name), Name: name, Kind: groupKind, LaneID: g.lane, UpstreamCount: upstreams[name],
			InputCount: upstreams[name], Policy: []byte("{}"), Tags: []byte("{}"),
		})
	}
	return call
}

// TestOnward adds an edge to a node whose record names its only edge: its completion resolves both.
func TestOnward(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a", "b", "c", "d"}, [2]string{"a", "b"}, [2]string{"b", "d"}, [2]string{"c", "d"})
		assert.Equal(t, "+"+string(g.node("b")), g.core("a")["onward"])
		assert.Empty(t, g.core("d")["onward"])
		b.Check(t, invariant.AnyTime)

		g.stage("a", "d")
		assert.Equal(t, "3", g.apply("a", "d", "a"))
		assert.Empty(t, g.core("a")["onward"])
		g.claim()
		g.end("a", "success")
		g.claim()
		assert.Equal(t, "active", g.state("b"))
		g.end("c", "success")
		assert.Equal(t, "waiting_children", g.state("d"))
		g.end("b", "success")
		assert.Equal(t, "waiting", g.state("d"))
		g.end("d", "success")
		assert.Equal(t, "success", g.result().Outcome)
		b.Check(t, invariant.AnyTime)
	})
}

// TestRenewalOfAPlainNode tells that the times of a renewal are there while the lease is, from the first renewal on.
func TestRenewalOfAPlainNode(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a"})
		g.claim()
		assert.Empty(t, g.core("a")["lease_renewal_deadline"])
		x := g.leases["a"]
		_, err := g.e.RenewLease(g.ctx, enginerpc.RenewLeaseCall{
			ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
			AttemptIndex: x.AttemptIndex, LeaseTTL: time.Hour,
		})
		require.NoError(t, err)
		assert.NotEmpty(t, g.core("a")["lease_renewal_deadline"])
		g.end("a", "success")
		for _, field := range []string{"lease_renewal_deadline", "lease_last_renewed_at", "current_lease_id"} {
			assert.Empty(t, g.core("a")[field])
		}
		b.Check(t, invariant.AnyTime)
	})
}
