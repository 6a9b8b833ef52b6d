package enginetest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// completions is a call that completes leased nodes, and claims the same number.
func (g *graph) completions(names ...string) enginerpc.WorkCall {
	call := enginerpc.WorkCall{Partition: g.p, ClaimRequest: enginerpc.ClaimRequest{
		LaneID: g.lane, WorkerID: "w", WorkerInstanceID: "w1", ClaimID: uuid.NewString(), Count: int64(len(names)),
		LeaseTTL: time.Hour, Kinds: "\n" + groupKind + "\n",
	}}
	for _, name := range names {
		x := g.leases[name]
		g.worked[x.ExecutionID] = &x
		call.Completions = append(call.Completions, enginerpc.Completed(&x, []byte("result of "+name)))
	}
	return call
}

// done are the executions of a call's completions as they were claimed.
func (g *graph) done(call enginerpc.WorkCall) []*enginerpc.ClaimedExecution {
	list := make([]*enginerpc.ClaimedExecution, len(call.Completions))
	for i := range call.Completions {
		list[i] = g.worked[call.Completions[i].ExecutionID]
	}
	return list
}

func (g *graph) completeMany(call enginerpc.WorkCall) (outcomes []string, nodes map[string]enginerpc.ClaimedExecution) {
	g.t.Helper()
	reply, err := g.e.Commit(g.ctx, call, g.done(call))
	require.NoError(g.t, err)
	nodes = make(map[string]enginerpc.ClaimedExecution)
	for _, x := range reply.Executions {
		nodes[x.Node], g.leases[x.Node] = x, x
	}
	return strings.Fields(reply.Outcomes), nodes
}

// TestWork completes several nodes with one call. The refusal of one does not affect the others, a repeated
// call returns the same leases, and a node downstream of all of them gets all their results.
func TestWork(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.managed("all", nil, [2]string{"a1", "all"}, [2]string{"a2", "all"}, [2]string{"a3", "all"}, [2]string{"a1", "b1"},
			[2]string{"a2", "b2"}, [2]string{"b1", "all"}, [2]string{"b2", "all"})
		g.claim()

		call := g.completions("a1", "a2", "a3")
		call.Completions[1].Lease = uuid.NewString()
		outcomes, nodes := g.completeMany(call)
		assert.Equal(t, []string{"OK", "stale_lease", "OK"}, outcomes)
		require.Len(t, nodes, 1)
		assert.Equal(t, []enginerpc.NodeInput{{Name: "a1", Result: []byte("result of a1")}}, nodes["b1"].Inputs)

		call.Repeated = true
		outcomes, again := g.completeMany(call)
		assert.Equal(t, []string{"ALREADY_SATISFIED", "stale_lease", "ALREADY_SATISFIED"}, outcomes)
		require.Len(t, again, 1)
		assert.Equal(t, nodes["b1"].LeaseID, again["b1"].LeaseID)

		outcomes, nodes = g.completeMany(g.completions("a2", "b1"))
		assert.Equal(t, []string{"OK", "OK"}, outcomes)
		require.Len(t, nodes, 1)
		outcomes, nodes = g.completeMany(g.completions("b2"))
		assert.Equal(t, []string{"OK"}, outcomes)
		require.Len(t, nodes, 1)
		assert.True(t, nodes["all"].InputsComplete)
		assert.Len(t, nodes["all"].Inputs, 5)
		outcomes, _ = g.completeMany(g.completions("all"))
		assert.Equal(t, []string{"OK"}, outcomes)
		assert.Equal(t, "success", g.result().Outcome)
		b.Check(t, invariant.AnyTime)
	})
}

// TestWork_Bounds: a call with more completions than allowed is refused before anything is written.
func TestWork_Bounds(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.managed("", nil, [2]string{"a", "b"})
		g.claim()
		call := g.completions("a")
		for len(call.Completions) <= 64 {
			call.Completions = append(call.Completions, call.Completions[0])
		}
		_, err := g.e.Work(g.ctx, call)
		require.ErrorIs(t, err, errorcode.InvalidInput)
		assert.Equal(t, "active", g.core("a")["lifecycle_phase"])
	})
}

// TestWork_RepeatWithoutFirst repeats a call whose first try never arrived. Of the nodes that it makes ready, one is leased
// with the completion itself and one after all completions; the worker gets both.
func TestWork_RepeatWithoutFirst(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.managed("", nil, [2]string{"a1", "b1"}, [2]string{"a2", "b2"})
		g.claim()
		x := g.leases["a2"]
		_, err := g.e.Release(g.ctx, enginerpc.ReleaseCall{
			Partition: g.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
		})
		require.NoError(t, err)
		g.claim()
		require.Greater(t, g.leases["a2"].LeaseEpoch, x.LeaseEpoch)

		call := g.completions("a1", "a2")
		call.Repeated = true
		outcomes, nodes := g.completeMany(call)
		assert.Equal(t, []string{"OK", "OK"}, outcomes)
		assert.Contains(t, nodes, "b1")
		assert.Contains(t, nodes, "b2")
		b.Check(t, invariant.AnyTime)
	})
}

// A graph in a partition other than the given ones. Its nodes wait in the lane of the first graph, and claims lease
// nodes of both.
func beside(t *testing.T, b *enginetest.Bench, others ...*graph) *graph {
	t.Helper()
	for {
		g := newGraph(t, b)
		if !slices.ContainsFunc(others, func(o *graph) bool { return o.p == g.p }) {
			g.lane, g.leases = others[0].lane, others[0].leases
			return g
		}
	}
}

// TestWork_SeveralPartitions completes nodes of runs in several partitions with one call: plain nodes, and one
// that decides a join. A single server has all partitions: it leases the next nodes, and a repeated call returns the
// same leases. A server of a cluster refuses nodes of other partitions without effect on the others.
func TestWork_SeveralPartitions(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		one := newGraph(t, b)
		two := beside(t, b, one)
		three := beside(t, b, one, two)
		all := []*graph{one, two, three}
		one.managed("b1", nil, [2]string{"a1", "b1"})
		two.managed("b2", map[string]joinPolicy{"b2": {variant: "any_of", then: cancelRemaining}}, [2]string{"a2", "b2"},
			[2]string{"x2", "b2"})
		three.managed("b3", nil, [2]string{"a3", "b3"}, [2]string{"a3", "c3"})
		for _, g := range all {
			g.claim()
		}

		call := one.completions("a1", "a2", "a3")
		call.Count = 2
		outcomes, nodes := one.completeMany(call)
		if b.Kind == testserver.OnCluster {
			assert.Equal(t, []string{"OK", "execution_not_found", "execution_not_found"}, outcomes)
			assert.Equal(t, "active", two.core("a2")["lifecycle_phase"])
			b.Check(t, invariant.AnyTime)
			return
		}
		assert.Equal(t, []string{"OK", "OK", "OK"}, outcomes)
		require.Len(t, nodes, 2, "as many as the call asked for")
		assert.Equal(t, []enginerpc.NodeInput{{Name: "a1", Result: []byte("result of a1")}}, nodes["b1"].Inputs)

		call.Repeated = true
		outcomes, again := one.completeMany(call)
		assert.Equal(t, []string{"ALREADY_SATISFIED", "ALREADY_SATISFIED", "ALREADY_SATISFIED"}, outcomes)
		for name, x := range nodes {
			assert.Equal(t, x.LeaseID, again[name].LeaseID)
		}
		b.Check(t, invariant.AnyTime)

		one.claim()
		outcomes, _ = three.completeMany(three.completions("b3", "b2", "c3", "b1"))
		assert.Equal(t, []string{"OK", "OK", "OK", "OK"}, outcomes)
		for _, g := range all {
			assert.Equal(t, "success", g.result().Outcome)
		}
		b.Check(t, invariant.AnyTime)
	})
}

// TestComplete_LeasesAnotherNodeOfTheRun completes a node, and leases another node of the same run that waits in the
// lane: the row of that one is between rows that the completion changes, and keeps its lease.
func TestComplete_LeasesAnotherNodeOfTheRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a", "b", "c"}, [2]string{"a", "c"})
		request := g.completions().ClaimRequest
		request.Count = 1
		first, err := g.e.Claim(g.ctx, enginerpc.ClaimCall{Partition: g.home(), ClaimRequest: request})
		require.NoError(t, err)
		require.Len(t, first.Executions, 1)
		x := first.Executions[0]
		require.Equal(t, "a", x.Node)

		request.ClaimID, request.Count = uuid.NewString(), 2
		reply, err := g.e.Complete(g.ctx, enginerpc.CompleteCall{
			Partition: g.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
			Result: []byte("1"), ClaimRequest: request,
		})
		require.NoError(t, err)
		require.Len(t, reply.Executions, 2)
		assert.Equal(t, "active", g.state("b"))
		assert.Equal(t, "active", g.state("c"))
		b.Check(t, invariant.AnyTime)
		for _, leased := range reply.Executions {
			g.leases[leased.Node] = leased
		}
		outcomes, _ := g.completeMany(g.completions("b", "c"))
		assert.Equal(t, []string{"OK", "OK"}, outcomes)
	})
}
