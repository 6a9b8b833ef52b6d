package layout

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
)

// The order of each layer never has more crossings than the order of the declaration, and most often far fewer.
func TestOrderReducesCrossings(t *testing.T) {
	t.Parallel()
	before, behind := 0, 0
	for seed := range randseed.Trials(t, 100) {
		r := rand.New(rand.NewPCG(seed, 2))
		g := Graph{Name: "random"}
		n := 2 + r.IntN(80)
		for i := range n {
			node := Node{Name: fmt.Sprint(i)}
			for range r.IntN(3) {
				if up := r.IntN(n); up < i {
					node.Upstreams = append(node.Upstreams, Edge{Node: fmt.Sprint(up), Kind: OnSuccess})
				}
			}
			g.Nodes = append(g.Nodes, node)
		}
		s := &settings{direction: Right, nodeWidth: NodeWidth}
		l, err := s.newLevel(&g, "", 0)
		require.NoError(t, err)
		k := newSketch(l, s.across)
		first := k.crossings(math.MaxInt)
		require.Equal(t, k.countSlowly(), first)
		k.order()
		require.LessOrEqual(t, k.crossings(math.MaxInt), first)
		require.Equal(t, k.countSlowly(), k.crossings(math.MaxInt))
		before, behind = before+first, behind+k.crossings(math.MaxInt)
	}
	require.Less(t, behind, before/2)
}

// countSlowly counts the crossings by their definition.
func (k *sketch) countSlowly() int {
	type step struct{ from, to int }
	count := 0
	for _, layer := range k.layers {
		var steps []step
		for place, v := range layer {
			for _, w := range k.downs[v] {
				steps = append(steps, step{place, int(k.places[w])})
			}
		}
		for i, a := range steps {
			for _, b := range steps[:i] {
				if (a.from-b.from)*(a.to-b.to) < 0 {
					count++
				}
			}
		}
	}
	return count
}

// The time of a layout is bounded by work that is counted, so that it is the same on every machine: bends for long lines
// stay within a bound that grows with the nodes.
func TestBendsAreBounded(t *testing.T) {
	t.Parallel()
	g := Graph{Name: "long"}
	for i := range 2_000 {
		node := Node{Name: fmt.Sprint(i)}
		for _, up := range []int{i - 1, i - 500, i - 1000} {
			if up >= 0 {
				node.Upstreams = append(node.Upstreams, Edge{Node: fmt.Sprint(up), Kind: OnSuccess})
			}
		}
		g.Nodes = append(g.Nodes, node)
	}
	s := &settings{direction: Right, nodeWidth: NodeWidth}
	l, err := s.newLevel(&g, "", 0)
	require.NoError(t, err)
	k := newSketch(l, s.across)
	require.LessOrEqual(t, len(k.vertices), len(l.items)+k.maxBends())
	rails := 0
	for i := range k.nets {
		if k.nets[i].rail {
			rails++
		}
	}
	require.Positive(t, rails)
}
