package enginetest_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// open is how many edges a node waits for.
func (g *graph) open(name string) int {
	g.t.Helper()
	_, rows := g.rows()
	return rows[g.run.Ordinal(name)-1].Open
}

// TestUpstreamsThatEndTogether ends several upstreams of a node with one call. An upstream that has ended before counts
// once. The call that ends the last ones hands the node on with the results of all upstreams.
func TestUpstreamsThatEndTogether(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		ups := []string{"a1", "a2", "a3", "a4", "a5"}
		var edges [][2]string
		for _, up := range ups {
			edges = append(edges, [2]string{up, "all"})
		}
		g.whole(append(ups, "all"), edges...)
		g.claim()
		g.completeMany(g.completions("a1"))
		require.Equal(t, 4, g.open("all"))

		call := g.completions("a1", "a2", "a3")
		call.Repeated = true
		outcomes, nodes := g.completeMany(call)
		assert.Equal(t, []string{"ALREADY_SATISFIED", "OK", "OK"}, outcomes)
		assert.Empty(t, nodes)
		assert.Equal(t, 2, g.open("all"))
		b.Check(t, invariant.AnyTime)

		outcomes, nodes = g.completeMany(g.completions("a4", "a5"))
		assert.Equal(t, []string{"OK", "OK"}, outcomes)
		require.Contains(t, nodes, "all")
		assert.Len(t, nodes["all"].Inputs, len(ups))
		g.completeMany(g.completions("all"))
		assert.Equal(t, "success", g.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}

// TestUpstreamsThatEndTogetherFeed hands a node on with the results of several upstreams that the same call has
// completed.
func TestUpstreamsThatEndTogetherFeed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a", "b", "all"}, [2]string{"a", "all"}, [2]string{"b", "all"})
		g.claim()
		_, nodes := g.completeMany(g.completions("a", "b"))
		require.Contains(t, nodes, "all")
		assert.ElementsMatch(t, []enginerpc.NodeInput{
			{Name: "a", Result: []byte("result of a"), Upstream: "1"}, {Name: "b", Result: []byte("result of b"), Upstream: "2"},
		}, nodes["all"].Inputs)
		b.Check(t, invariant.AnyTime)
	})
}

// TestUpstreamsThatEndTogetherSkip skips a node that one of its upstreams, all of which end with one call, does not
// satisfy.
func TestUpstreamsThatEndTogetherSkip(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		call := g.describe([]string{"a", "b", "c", "skipped", "end"},
			[2]string{"a", "skipped"}, [2]string{"b", "skipped"}, [2]string{"c", "skipped"}, [2]string{"skipped", "end"}, [2]string{"c", "end"})
		call.Edges[1].Kind = "on_failure"
		call.Edges[3].Kind = "always"
		g.submit(call)
		g.claim()
		_, nodes := g.completeMany(g.completions("a", "b", "c"))
		assert.Equal(t, "skipped", g.state("skipped"))
		assert.Equal(t, 0, g.open("skipped"))
		require.Contains(t, nodes, "end")
		g.completeMany(g.completions("end"))
		assert.Equal(t, "success", g.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}

// TestJoinBetweenCompletions completes two siblings of a join with one call: the first one satisfies the join, which
// stops the second before that is completed.
func TestJoinBetweenCompletions(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.managed("any", map[string]joinPolicy{"any": {"any_of", 1, cancelRemaining}}, [2]string{"a", "any"}, [2]string{"b", "any"})
		g.claim()
		outcomes, nodes := g.completeMany(g.completions("a", "b"))
		assert.Equal(t, []string{"OK", "execution_not_active"}, outcomes)
		assert.Equal(t, "cancelled", g.state("b"))
		assert.Contains(t, nodes, "any")
		b.Check(t, invariant.AnyTime)
	})
}

// TestChildrenEnterTheLaneTogether makes children of two runs eligible with one call. Only the second run has a
// fairness key. The first run's children, which come before the lane has turns, get turns, too.
func TestChildrenEnterTheLaneTogether(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g, keyed := newGraph(t, b), newGraph(t, b)
		keyed.p, keyed.lane, keyed.leases = g.p, g.lane, g.leases
		call := g.describe([]string{"a", "a1", "a2"}, [2]string{"a", "a1"}, [2]string{"a", "a2"})
		g.submit(call)
		g.claim()
		call = keyed.describe([]string{"k", "k1", "k2"}, [2]string{"k", "k1"}, [2]string{"k", "k2"})
		call.FairKey = "key"
		keyed.submit(call)
		g.claim()

		completions := g.completions("a", "k")
		completions.Count = 0
		outcomes, _ := g.completeMany(completions)
		require.Equal(t, []string{"OK", "OK"}, outcomes)
		order := g.hash(g.e.Keys().FfxOrder(g.home(), g.lane))
		assert.Equal(t, "0", order["adopted_to"], "the first claims look for those without a key")
		b.Check(t, invariant.AnyTime)
		claimed := map[string]int{}
		for range 4 {
			request := g.completions().ClaimRequest
			request.ClaimID, request.Count = uuid.NewString(), 1
			reply, err := g.e.Claim(g.ctx, enginerpc.ClaimCall{Partition: g.p, ClaimRequest: request})
			require.NoError(t, err)
			for _, x := range reply.Executions {
				claimed[x.Node]++
			}
			b.Check(t, invariant.AnyTime)
		}
		assert.Equal(t, map[string]int{"a1": 1, "a2": 1, "k1": 1, "k2": 1}, claimed)
	})
}

// TestReadyNodes_WithOneInput makes nodes ready that have one input; one of them gets another upstream before.
func TestReadyNodes_WithOneInput(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a", "c", "b1", "b2", "b3"}, [2]string{"a", "b1"}, [2]string{"a", "b2"}, [2]string{"a", "b3"}, [2]string{"c", "b3"})
		g.claim()
		call := g.completions("a")
		call.Count = 0
		g.completeMany(call)
		b.Check(t, invariant.AnyTime)

		g.stage("c", "b2")
		assert.Equal(t, "1", g.apply("c", "b2", ""))
		assert.Equal(t, "waiting_children", g.state("b2"))
		b.Check(t, invariant.AnyTime)
		_, nodes := g.completeMany(g.completions("c"))
		g.claim()
		for _, name := range []string{"b1", "b2"} {
			x := g.leases[name]
			assert.Equal(t, []enginerpc.NodeInput{{Name: "a", Result: []byte("result of a"), Upstream: "1"}}, x.Inputs, name)
			assert.True(t, x.InputsComplete, name)
		}
		assert.LessOrEqual(t, len(nodes), 1)
		assert.Len(t, g.leases["b3"].Inputs, 2)
		g.completeMany(g.completions("b1", "b2", "b3"))
		assert.Equal(t, "success", g.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}

// TestClaimLeavesOutLargeResult leaves a result out of a claim that exceeds the size of a claim's inputs.
func TestClaimLeavesOutLargeResult(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a", "b1", "b2"}, [2]string{"a", "b1"}, [2]string{"a", "b2"})
		g.claim()
		call := g.completions("a")
		call.Count, call.Completions[0].Result = 0, bytes.Repeat([]byte("x"), 1<<20+1)
		g.completeMany(call)
		g.claim()
		for _, name := range []string{"b1", "b2"} {
			assert.False(t, g.leases[name].InputsComplete)
			reply, err := g.e.ReadInputs(g.ctx, enginerpc.ReadInputsCall{Partition: g.p, ExecutionID: g.node(name)})
			require.NoError(t, err)
			require.Len(t, reply.Inputs, 1)
			assert.Len(t, reply.Inputs[0].Result, 1<<20+1)
		}
	})
}

// TestRunsThatEndTogether ends two runs with one call, which announces each run with its own result.
func TestRunsThatEndTogether(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g, other := newGraph(t, b), newGraph(t, b)
		other.p, other.lane, other.leases = g.p, g.lane, g.leases
		g.whole([]string{"a", "b"}, [2]string{"a", "b"})
		other.whole([]string{"c"})
		const origin = "PROCESS1"
		for _, x := range []*graph{g, other} {
			_, err := g.e.WatchRun(g.ctx, enginerpc.WatchRunCall{Partition: x.p, FlowID: x.id, Origin: origin, Duration: time.Hour})
			require.NoError(t, err)
		}
		g.claim()
		listener, leave := g.e.Client().Dedicate()
		defer leave()
		told := make(chan string, 4)
		listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { told <- m.Message }})
		require.NoError(t, listener.Do(g.ctx, listener.B().Subscribe().Channel(g.e.Keys().ChannelDone(origin)).Build()).Error())

		_, nodes := g.completeMany(g.completions("a"))
		require.Contains(t, nodes, "b")
		outcomes, _ := g.completeMany(g.completions("b", "c"))
		assert.Equal(t, []string{"OK", "OK"}, outcomes)
		select {
		case message := <-told:
			assert.Contains(t, message, string(g.id)+" success result of b")
			assert.Contains(t, message, string(other.id)+" success result of c")
		case <-g.ctx.Done():
			t.Fatal("no message arrives")
		}
		assert.Equal(t, "success", g.result().Outcome)
		assert.Equal(t, "success", other.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}

// TestClaimsOfSeveralByAge claims several executions per call from a lane with priorities, so that some claims take the
// oldest executions: each execution is leased exactly once.
func TestClaimsOfSeveralByAge(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const nodes = 40
		g := newGraph(t, b)
		var names []string
		for i := range nodes {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		call := g.describe(names)
		for i := range call.Nodes {
			call.Nodes[i].Priority = int64(i % 3)
		}
		g.submit(call)
		claimed := make(map[string]int)
		for n := 0; n < nodes; n += 5 {
			request := g.completions().ClaimRequest
			request.ClaimID, request.Count = uuid.NewString(), 5
			reply, err := g.e.Claim(g.ctx, enginerpc.ClaimCall{Partition: g.p, ClaimRequest: request})
			require.NoError(t, err)
			require.Len(t, reply.Executions, 5)
			for _, x := range reply.Executions {
				claimed[x.Node]++
			}
			b.Check(t, invariant.AnyTime)
		}
		assert.Len(t, claimed, nodes)
	})
}

// TestInputsOfOneCall claims three nodes with many inputs each: a call returns the inputs of as many nodes as its limit
// allows, and leaves the inputs of the others to be read.
func TestInputsOfOneCall(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const ups = 100
		g := newGraph(t, b)
		var nodes, first []string
		var edges [][2]string
		for i := range ups {
			up := fmt.Sprintf("up%d", i)
			first = append(first, up)
			for _, down := range []string{"d1", "d2", "d3"} {
				edges = append(edges, [2]string{up, down})
			}
		}
		nodes = append(append(nodes, first...), "d1", "d2", "d3")
		g.whole(nodes, edges...)
		g.claim()
		for batch := range slices.Chunk(first, 20) {
			call := g.completions(batch...)
			call.Count = 0
			g.completeMany(call)
		}
		g.claim()
		complete := 0
		for _, down := range []string{"d1", "d2", "d3"} {
			x := g.leases[down]
			if x.InputsComplete {
				complete++
				assert.Len(t, x.Inputs, ups)
				continue
			}
			reply, err := g.e.ReadInputs(g.ctx, enginerpc.ReadInputsCall{Partition: g.p, ExecutionID: x.ExecutionID})
			require.NoError(t, err)
			assert.NotEmpty(t, reply.Inputs)
		}
		assert.Equal(t, 2, complete)
		b.Check(t, invariant.AnyTime)
	})
}
