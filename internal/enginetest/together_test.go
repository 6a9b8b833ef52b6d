package enginetest_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/invariant"
)

// counts are how many edges a node waits for, by its counter and by the set of them.
func (g *graph) counts(name string) (counter string, open int) {
	keys := g.e.Keys()
	return g.hash(keys.ExecDepsMeta(g.node(name)))["unsatisfied_required_count"], len(g.set(keys.ExecDepsUnresolved(g.node(name))))
}

// TestUpstreamsThatEndTogether ends several upstreams of a node with one call, one of which the node has been told of before:
// it counts once. The call that ends the last ones hands the node on with what all of them bring that it ends.
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
		state, _ := g.resolve("a1", "all", "success")
		require.Equal(t, "satisfied", state)

		outcomes, nodes := g.completeMany(g.completions("a1", "a2", "a3"))
		assert.Equal(t, []string{"OK", "OK", "OK"}, outcomes)
		assert.Empty(t, nodes)
		counter, open := g.counts("all")
		assert.Equal(t, "2", counter)
		assert.Equal(t, 2, open)
		b.Check(t, invariant.AnyTime)

		outcomes, nodes = g.completeMany(g.completions("a4", "a5"))
		assert.Equal(t, []string{"OK", "OK"}, outcomes)
		require.Contains(t, nodes, "all")
		assert.Len(t, nodes["all"].Inputs, len(ups))
		for _, up := range ups {
			assert.Equal(t, "satisfied", g.hash(g.e.Keys().ExecDep(g.node("all"), g.edge(up, "all")))["state"], up)
		}
		g.completeMany(g.completions("all"))
		assert.Equal(t, "success", g.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}

// TestUpstreamsThatEndTogetherFeed hands a node on with the results of several upstreams that the same call has completed.
func TestUpstreamsThatEndTogetherFeed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a", "b", "all"}, [2]string{"a", "all"}, [2]string{"b", "all"})
		g.claim()
		_, nodes := g.completeMany(g.completions("a", "b"))
		require.Contains(t, nodes, "all")
		assert.ElementsMatch(t, []enginecore.NodeInput{
			{Name: "a", Result: []byte("result of a")}, {Name: "b", Result: []byte("result of b")},
		}, nodes["all"].Inputs)
		b.Check(t, invariant.AnyTime)
	})
}

// TestUpstreamsThatEndTogetherSkip skips a node that one of its upstreams, all of which end with one call, does not satisfy.
func TestUpstreamsThatEndTogetherSkip(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		call := g.wholeCall([]string{"a", "b", "c", "skipped", "end"},
			[2]string{"a", "skipped"}, [2]string{"b", "skipped"}, [2]string{"c", "skipped"}, [2]string{"skipped", "end"}, [2]string{"c", "end"})
		call.Edges[1].DependencyKind = "on_failure"
		call.Edges[3].DependencyKind = "always"
		g.submit(call)
		g.claim()
		_, nodes := g.completeMany(g.completions("a", "b", "c"))
		assert.Equal(t, "skipped", g.state("skipped"))
		meta := g.hash(g.e.Keys().ExecDepsMeta(g.node("skipped")))
		assert.Equal(t, "0", meta["unsatisfied_required_count"])
		assert.Equal(t, "1", meta["impossible_required_count"])
		require.Contains(t, nodes, "end")
		g.completeMany(g.completions("end"))
		assert.Equal(t, "success", g.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}

// TestJoinBetweenCompletions completes two siblings of a join with one call: the first one satisfies the join, which stops the
// second before that is completed.
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

// TestChildrenEnterTheLaneTogether makes children of two runs ready with one call, of which only the second have a key: those of
// the first, which come before the lane has turns, take theirs, too.
func TestChildrenEnterTheLaneTogether(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g, keyed := newGraph(t, b), newGraph(t, b)
		keyed.p, keyed.lane, keyed.leases = g.p, g.lane, g.leases
		call := g.wholeCall([]string{"a", "a1", "a2"}, [2]string{"a", "a1"}, [2]string{"a", "a2"})
		g.submit(call)
		g.claim()
		call = keyed.wholeCall([]string{"k", "k1", "k2"}, [2]string{"k", "k1"}, [2]string{"k", "k2"})
		call.FairKey = "key"
		keyed.submit(call)
		g.claim()

		completions := g.completions("a", "k")
		completions.Count = 0
		outcomes, _ := g.completeMany(completions)
		require.Equal(t, []string{"OK", "OK"}, outcomes)
		assert.Equal(t, "0", g.hash(g.e.Keys().FfxOrder(g.p, g.lane))["adopted_to"], "the first claims look for those without a key")
		b.Check(t, invariant.AnyTime)
		claimed := map[string]int{}
		for range 4 {
			request := g.completions().ClaimRequest
			request.ClaimID, request.Count = uuid.NewString(), 1
			reply, err := g.e.Claim(g.ctx, enginecore.ClaimCall{Partition: g.p, ClaimRequest: request})
			require.NoError(t, err)
			for _, x := range reply.Executions {
				claimed[x.Node]++
			}
			b.Check(t, invariant.AnyTime)
		}
		assert.Equal(t, map[string]int{"a1": 1, "a2": 1, "k1": 1, "k2": 1}, claimed)
	})
}
