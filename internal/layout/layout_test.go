package layout_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/layout"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	inner := node("sub")
	inner.Inner = &layout.Graph{Name: "inner", Nodes: []layout.Node{node("x", "x")}}
	for want, g := range map[string]layout.Graph{
		`flow "f" has two nodes "a"`:                           {Name: "f", Nodes: []layout.Node{node("a"), node("a")}},
		`node "b" depends on "c", which flow "f" does not`:     {Name: "f", Nodes: []layout.Node{node("a"), node("b", "c")}},
		`node "a" of flow "f" is in a cycle`:                   {Name: "f", Nodes: []layout.Node{node("a", "b"), node("b", "a")}},
		`a node with the name "a/b"`:                           {Name: "f", Nodes: []layout.Node{node("a/b")}},
		`returns the result of node "r"`:                       {Name: "f", Return: "r"},
		`in node "sub": graph cannot be laid out: node "x" of`: {Name: "f", Nodes: []layout.Node{inner}},
	} {
		_, err := layout.New(g, layout.Open("sub"))
		require.ErrorIs(t, err, layout.ErrGraph)
		require.ErrorContains(t, err, want)
	}
}

func TestEmptyGraph(t *testing.T) {
	t.Parallel()
	l := lay(t, layout.Graph{Name: "nothing"})
	require.Empty(t, l.Nodes)
	requireXML(t, l.SVG(nil))
}

// box returns the node with an ID.
func box(t testing.TB, l *layout.Layout, id string) layout.Box {
	t.Helper()
	for _, b := range l.Nodes {
		if b.ID == id {
			return b
		}
	}
	t.Fatalf("node %s is missing", id)
	return layout.Box{}
}

func TestEqualNodesAreFolded(t *testing.T) {
	t.Parallel()
	l := lay(t, fanOut(10_000))
	require.Len(t, l.Nodes, 4, "input, scan, the parts, sum")
	fold := box(t, l, "count-0/*")
	require.Equal(t, layout.Fold, fold.Kind)
	require.Equal(t, layout.Activity, fold.Of)
	require.Equal(t, "count-0 … 9999", fold.Name)
	require.Equal(t, 10_000, fold.Count)
	require.Len(t, fold.Members, 10_000)
	require.Equal(t, "count-9999", fold.Members[9_999])
	require.Equal(t, 10_000, l.Edges[len(l.Edges)-1].Count)

	require.Len(t, lay(t, fanOut(12)).Nodes, 12+3, "as many as are drawn one by one")
	require.Len(t, lay(t, fanOut(20), layout.FoldBeyond(20)).Nodes, 20+3)
	require.Len(t, lay(t, fanOut(20), layout.FoldBeyond(0)).Nodes, 20+3)
	for _, open := range []string{"count-0/*", "count-7"} {
		require.Len(t, lay(t, fanOut(20), layout.Open(open)).Nodes, 20+3)
	}
}

// Nodes that differ in anything that is drawn are not folded.
func TestDifferentNodesAreNotFolded(t *testing.T) {
	t.Parallel()
	g := fanOut(20)
	g.Nodes[3].Text = "census.other"
	g.Nodes[5].Upstreams[0].Data = false
	g.Nodes[7].Finally = true
	g.Nodes[9].Join = "any"
	g.Nodes[11].Kind = layout.Map
	g.Nodes[21].Upstreams[12].Kind = layout.Always
	l := lay(t, g)
	require.Equal(t, 20-6, box(t, l, "count-0/*").Count)
	require.Len(t, l.Nodes, 3+1+6)
}

// Equal pipelines are folded step by step.
func TestPipelinesAreFolded(t *testing.T) {
	t.Parallel()
	g := chains(10_000)
	for i := range g.Nodes {
		g.Nodes[i].Text = fmt.Sprintf("step-%d", i%10)
	}
	l := lay(t, g)
	require.Equal(t, 1+10, len(l.Nodes), "input, and one for each step")
	requireSound(t, l)
	for _, e := range l.Edges {
		require.Equal(t, 1_000, e.Count)
	}
}

func TestOpenNodes(t *testing.T) {
	t.Parallel()
	l := lay(t, claims(), layout.Open("pages", "nothing"))
	require.Len(t, l.Groups, 1)
	require.Equal(t, "pages", l.Groups[0].ID)
	require.Equal(t, "pages", box(t, l, "pages/read").Group)
	requireSound(t, l)
	require.True(t, box(t, lay(t, claims()), "pages").CanOpen)
}

// Open nodes within open nodes, with folds in them, are sound in both directions.
func TestRandomNestedGraphs(t *testing.T) {
	t.Parallel()
	for seed := range randseed.Trials(t, 30) {
		r := rand.New(rand.NewPCG(seed, 3))
		var open []string
		g := nest(r, 3, "", &open)
		for _, opts := range [][]layout.Option{{layout.Open(open...)}, {layout.TopDown(), layout.Open(open...), layout.FoldBeyond(2)}} {
			l := lay(t, g, opts...)
			requireSound(t, l)
			requireXML(t, l.SVG(map[string]layout.NodeState{"n0": {State: layout.Running}}))
		}
	}
}

// nest returns a random graph with random graphs in some of its nodes, and adds the IDs of some of these to open.
func nest(r *rand.Rand, depth int, prefix string, open *[]string) layout.Graph {
	n := 1 + r.IntN(8)
	g := randomGraph(r, n, r.IntN(2*n), n)
	for i := range g.Nodes {
		if depth == 0 || r.IntN(2) == 0 {
			continue
		}
		id := prefix + g.Nodes[i].Name
		inner := nest(r, depth-1, id+"/", open)
		g.Nodes[i].Kind, g.Nodes[i].Inner = layout.SubFlow, &inner
		if r.IntN(3) > 0 {
			*open = append(*open, id)
		}
	}
	return g
}

// A flow that runs itself opens to a bound.
func TestRecursiveFlowOpensToABound(t *testing.T) {
	t.Parallel()
	g := layout.Graph{Name: "self", Nodes: []layout.Node{node("again")}}
	g.Nodes[0].Inner = &g
	ids := []string{"again"}
	for range 40 {
		ids = append(ids, ids[len(ids)-1]+"/again")
	}
	l := lay(t, g, layout.Open(ids...))
	require.Len(t, l.Groups, 16)
	requireSound(t, l)
}

// Nodes with many cases have room for the labels of all.
func TestLabels(t *testing.T) {
	t.Parallel()
	g := layout.Graph{Name: "cases", Nodes: []layout.Node{{Name: "pick", Kind: layout.Condition, Text: "one of many"}}}
	last := node("last")
	for i := range 8 {
		from := fmt.Sprintf("c%d", i)
		g.Nodes = append(g.Nodes, layout.Node{Name: from, Kind: layout.Condition})
		last.Upstreams = append(last.Upstreams, layout.Edge{Node: from, Kind: layout.OnCase, Case: fmt.Sprintf("case %d", i)})
	}
	same := node("same")
	for i := range 8 {
		same.Upstreams = append(same.Upstreams, layout.Edge{Node: fmt.Sprintf("c%d", i), Kind: layout.OnFailure})
	}
	g.Nodes = append(g.Nodes, last, same)
	for _, opts := range [][]layout.Option{nil, {layout.TopDown()}} {
		l := lay(t, g, opts...)
		requireSound(t, l)
		seen := make(map[string]int)
		var at []layout.Point
		for _, e := range l.Edges {
			if e.Label == "" {
				continue
			}
			seen[e.To+" "+e.Label]++
			if e.To == "last" {
				for _, other := range at {
					require.GreaterOrEqual(t, max(other.Y-e.LabelAt.Y, e.LabelAt.Y-other.Y), 14.0, "labels are not above each other")
				}
				at = append(at, *e.LabelAt)
			}
		}
		require.Len(t, at, 8)
		require.Equal(t, 1, seen["same on failure"], "the same label is there once")
	}
}

// A layout is plain data.
func TestJSON(t *testing.T) {
	t.Parallel()
	l := lay(t, claims(), layout.Open("pages"))
	data, err := json.Marshal(l)
	require.NoError(t, err)
	var again layout.Layout
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, l, &again)
	require.Contains(t, string(data), `{"id":"pages/read","name":"read","kind":"activity",`)
}

// Texts of flows are escaped, and cannot leave their place.
func TestTextsAreEscaped(t *testing.T) {
	t.Parallel()
	g := layout.Graph{
		Name: `a<b>&"c"]]>`, Description: "\x00<script>", Input: "map[string]<x>",
		Nodes: []layout.Node{{Name: `n"<`, Kind: layout.Waitpoint, Text: "</text><script>alert(1)</script>", Join: "<any>"}},
	}
	svg := lay(t, g).SVG(map[string]layout.NodeState{`n"<`: {State: "unknown", Text: "<b>"}})
	requireXML(t, svg)
	require.NotContains(t, svg, "<script")
	require.NotContains(t, strings.ToLower(svg), "<b>")
}

// Lines that are too long for bends pass below all nodes.
func TestLongLinesPassBelowNodes(t *testing.T) {
	t.Parallel()
	g := layout.Graph{Name: "long"}
	for i := range 300 {
		n := layout.Node{Name: fmt.Sprint(i), Kind: layout.Activity}
		for _, up := range []int{i - 1, i - 90, i - 150} {
			if up >= 0 {
				n.Upstreams = append(n.Upstreams, layout.Edge{Node: fmt.Sprint(up), Kind: layout.OnSuccess})
			}
		}
		g.Nodes = append(g.Nodes, n)
	}
	for _, opts := range [][]layout.Option{nil, {layout.TopDown()}} {
		l := lay(t, g, opts...)
		requireSound(t, l)
		lowest := 0.0
		for _, b := range l.Nodes {
			lowest = max(lowest, b.Y+b.H)
		}
		below := 0
		for _, e := range l.Edges {
			if e.Points[len(e.Points)/2].Y > lowest {
				below++
			}
		}
		require.Equal(t, l.Direction == layout.Right, below > 50)
	}
}

// A graph of three nodes: their places, and the way of an edge.
func ExampleNew() {
	l, err := layout.New(layout.Graph{
		Name: "orders",
		Nodes: []layout.Node{
			{Name: "check", Kind: layout.Condition, Text: "condition"},
			{Name: "ship", Kind: layout.Activity, Text: "orders.ship", Upstreams: []layout.Edge{
				{Node: "check", Kind: layout.OnCase, Case: "true"},
			}},
			{Name: "refuse", Kind: layout.Activity, Text: "orders.refuse", Upstreams: []layout.Edge{
				{Node: "check", Kind: layout.OnCase, Case: "false"},
			}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.Width, l.Height)
	for _, n := range l.Nodes {
		fmt.Println(n.Name, n.X, n.Y, n.W, n.H)
	}
	fmt.Println(l.Edges[0].Label, l.Edges[0].Points)
	// Output:
	// 367 148
	// check 12 51 134 46
	// ship 221 12 134 46
	// refuse 221 90 134 46
	// true [{146 74} {170 74} {170 35} {221 35}]
}
