package layout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/layout"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
)

// randomGraph returns a graph of n nodes with about edges edges, each at most reach nodes long, of all kinds.
func randomGraph(r *rand.Rand, n, edges, reach int) layout.Graph {
	g := layout.Graph{Name: "random", Input: "In", Result: "Out", Nodes: make([]layout.Node, n)}
	kinds := []layout.Kind{
		layout.Activity, layout.Activity, layout.Activity, layout.Waitpoint, layout.Timer, layout.Condition, layout.Map,
		layout.Loop, layout.Expansion,
	}
	taken := make(map[[2]int]bool)
	for i := range g.Nodes {
		g.Nodes[i] = layout.Node{Name: fmt.Sprintf("n%d", i), Kind: kinds[r.IntN(len(kinds))], Text: fmt.Sprintf("a.%d", r.IntN(3))}
	}
	for range edges {
		to := r.IntN(n)
		from := to - 1 - r.IntN(reach)
		if from < 0 || taken[[2]int{from, to}] {
			continue
		}
		taken[[2]int{from, to}] = true
		e := layout.Edge{Node: g.Nodes[from].Name, Kind: layout.OnSuccess, Data: r.IntN(2) == 0}
		switch {
		case g.Nodes[from].Kind == layout.Condition:
			e = layout.Edge{Node: e.Node, Kind: layout.OnCase, Case: []string{"true", "false", "a case with a long name"}[r.IntN(3)]}
		case r.IntN(5) == 0:
			e = layout.Edge{Node: e.Node, Kind: []layout.EdgeKind{layout.OnFailure, layout.Always, layout.OrElse}[r.IntN(3)]}
		}
		g.Nodes[to].Upstreams = append(g.Nodes[to].Upstreams, e)
	}
	g.Return = g.Nodes[r.IntN(n)].Name
	return g
}

// place is the outline of a node or an open node.
type place struct{ x, y, w, h float64 }

// within reports whether p is inside q, with at least so much room around it.
func (p place) within(q place, room float64) bool {
	return p.x >= q.x+room && p.y >= q.y+room && p.x+p.w <= q.x+q.w-room && p.y+p.h <= q.y+q.h-room
}

// apart reports whether two outlines have at least so much room between them.
func (p place) apart(q place, room float64) bool {
	return p.x+p.w+room <= q.x || q.x+q.w+room <= p.x || p.y+p.h+room <= q.y || q.y+q.h+room <= p.y
}

// requireSound checks the invariants of every layout.
func requireSound(t testing.TB, l *layout.Layout) {
	t.Helper()
	places := make(map[string]place)
	siblings := make(map[string][]string)
	groups := map[string]place{"": {0, 0, l.Width, l.Height}}
	for _, g := range l.Groups {
		places[g.ID] = place{g.X, g.Y, g.W, g.H}
		groups[g.ID] = places[g.ID]
		siblings[g.Group] = append(siblings[g.Group], g.ID)
		require.True(t, places[g.ID].within(groups[g.Group], 8), "open node %s in %q", g.ID, g.Group)
	}
	for _, b := range l.Nodes {
		require.NotContains(t, places, b.ID)
		places[b.ID] = place{b.X, b.Y, b.W, b.H}
		siblings[b.Group] = append(siblings[b.Group], b.ID)
		require.True(t, places[b.ID].within(groups[b.Group], 8), "node %s in %q", b.ID, b.Group)
	}
	for _, ids := range siblings {
		for i, id := range ids {
			for _, other := range ids[:i] {
				if !places[id].apart(places[other], 24) {
					t.Fatalf("%s and %s: %v, %v", id, other, places[id], places[other])
				}
			}
		}
	}
	for _, e := range l.Edges {
		requireLine(t, l, e, places, siblings)
	}
}

func requireLine(t testing.TB, l *layout.Layout, e layout.Line, places map[string]place, siblings map[string][]string) {
	t.Helper()
	from, to := places[e.From], places[e.To]
	require.GreaterOrEqual(t, len(e.Points), 2)
	require.GreaterOrEqual(t, e.Count, 1)
	first, last := e.Points[0], e.Points[len(e.Points)-1]
	if l.Direction == layout.Down {
		require.Equal(t, from.y+from.h, first.Y, "the line begins at the border")
		require.Equal(t, to.y, last.Y, "the line ends at the border")
		require.True(t, first.X >= from.x && first.X <= from.x+from.w && last.X >= to.x && last.X <= to.x+to.w)
	} else {
		require.Equal(t, from.x+from.w, first.X, "the line begins at the border")
		require.Equal(t, to.x, last.X, "the line ends at the border")
		require.True(t, first.Y >= from.y && first.Y <= from.y+from.h && last.Y >= to.y && last.Y <= to.y+to.h)
	}
	for i := 1; i < len(e.Points); i++ {
		a, b := e.Points[i-1], e.Points[i]
		require.True(t, (a.X == b.X) != (a.Y == b.Y), "%v to %v is not at a right angle", a, b)
		if l.Direction == layout.Down {
			require.GreaterOrEqual(t, b.Y, a.Y, "lines lead forward")
		} else {
			require.True(t, b.X >= a.X || wrapped(l), "lines lead forward")
		}
		part := place{min(a.X, b.X), min(a.Y, b.Y), max(a.X, b.X) - min(a.X, b.X), max(a.Y, b.Y) - min(a.Y, b.Y)}
		require.True(t, part.within(place{0, 0, l.Width, l.Height}, 2), "%v to %v leaves the drawing", a, b)
		for _, ids := range siblings {
			for _, id := range ids {
				if id == e.From || id == e.To || len(l.Groups) > 0 {
					continue
				}
				if !part.apart(places[id], 1) {
					t.Fatalf("the line from %s to %s passes under %s", e.From, e.To, id)
				}
			}
		}
	}
}

// wrapped reports whether a later layer begins left of an earlier one.
func wrapped(l *layout.Layout) bool {
	return slices.ContainsFunc(l.Nodes, func(a layout.Box) bool {
		return slices.ContainsFunc(l.Nodes, func(b layout.Box) bool { return a.Group == "" && b.Group == "" && a.Layer > b.Layer && a.X < b.X })
	})
}

// A drawing is wrapped at its width, if each of its layers has room there.
func TestWrap(t *testing.T) {
	t.Parallel()
	g := randomGraph(rand.New(rand.NewPCG(7, 1)), 40, 60, 3)
	one, rows := lay(t, g), lay(t, g, layout.Wrap(900))
	require.Greater(t, one.Width, 1500.0)
	require.Less(t, rows.Width, 1100.0)
	require.Greater(t, rows.Height, one.Height)
	requireSound(t, rows)
	require.Equal(t, one, lay(t, g, layout.Wrap(one.Width)), "a drawing that fits is as it was")
}

// Layouts of random graphs are sound, and the same each time.
func TestRandomGraphs(t *testing.T) {
	t.Parallel()
	for seed := range randseed.Trials(t, 60) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(60)
		g := randomGraph(r, n, r.IntN(3*n), 1+r.IntN(n))
		for _, opts := range [][]layout.Option{nil, {layout.TopDown()}, {layout.FitText(), layout.FoldBeyond(2)}, {layout.Wrap(700)}} {
			l := lay(t, g, opts...)
			requireSound(t, l)
			require.Equal(t, l, lay(t, g, opts...))
			requireXML(t, l.SVG(nil))
			require.Equal(t, l.SVG(nil), l.SVG(nil))
		}
	}
}
