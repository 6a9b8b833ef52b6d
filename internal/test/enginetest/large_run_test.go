package enginetest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// wide describes a run of a root, many nodes downstream of it, and an end downstream of all of those.
func (g *graph) wide(many []string) {
	var edges [][2]string
	for _, name := range many {
		edges = append(edges, [2]string{"root", name}, [2]string{name, "end"})
	}
	g.whole(append(append([]string{"root"}, many...), "end"), edges...)
}

// TestWideRun completes a run whose root has more downstreams than one call resolves, all of which lead to one node.
func TestWideRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		many := numbered(1998)
		g.wide(many)
		require.True(t, g.end("root", "success"), "some must be left for later")
		b.Check(t, invariant.AnyTime)
		g.drain(128)
		g.claim()
		for some := range slices.Chunk(many, 50) {
			call := g.completions(some...)
			call.Count = 0
			outcomes, _ := g.completeMany(call)
			require.NotContains(t, outcomes, "stale_lease")
		}
		b.Check(t, invariant.AnyTime)
		g.end("end", "success")
		assert.Equal(t, "success", g.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}

// TestCancelOfAWideRun cancels and purges a run of many nodes in bounded calls.
func TestCancelOfAWideRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.wide(numbered(1998))
		require.True(t, l.graph.end("root", "success"))
		l.cancelFlow()
		l.tick()
		assert.Equal(t, "cancelled", l.graph.result().Outcome)
		assert.Equal(t, "cancelled", l.state("n1997"))
		b.Check(t, invariant.Quiescent)
		for more := true; more; {
			reply, err := l.e.PurgeFlow(l.ctx, enginerpc.PurgeFlowCall{Partition: l.p, FlowID: l.id})
			require.NoError(t, err)
			more = reply.More
		}
		require.Empty(t, l.flowCore())
		require.Empty(t, l.core("n1997"))
		b.Check(t, invariant.Quiescent)
	})
}

// TestBadCursors reads lists of nodes from cursors that no call has returned: a page never exceeds its maximum number
// of nodes.
func TestBadCursors(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a", "b", "c"})
		for _, cursor := range []string{"-inf", "inf", "nan", "-3", "1.5", "1e300", "0", "abc", strings.Repeat("9", 40)} {
			flow, err := g.e.DescribeFlow(g.ctx, enginerpc.DescribeFlowCall{Partition: g.p, FlowID: g.id, Limit: 2, Cursor: cursor})
			if err == nil { // a cursor can be refused
				assert.LessOrEqual(t, len(flow.Nodes), 2, cursor)
			}
			list, err := g.e.ListNodes(g.ctx, enginerpc.ListNodesCall{Partition: g.p, FlowID: g.id, Limit: 2, Cursor: cursor})
			require.NoError(t, err, cursor)
			assert.LessOrEqual(t, len(list.Nodes), 2, cursor)
		}
	})
}
