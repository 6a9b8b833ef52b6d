package layout

import (
	"encoding/binary"
	"slices"
	"strings"
)

// folds are the sets of nodes of a graph that are drawn as one.
type folds struct {
	of   []int   // by the number of a node: the number of its fold, or -1
	list [][]int // the nodes of each fold, in the order of their declaration
}

// folds returns the nodes that are alike. order has upstreams first.
func (s *settings) folds(g *Graph, prefix string, index map[string]int, order []int) folds {
	f := folds{of: make([]int, len(g.Nodes))}
	for i := range f.of {
		f.of[i] = -1
	}
	if s.foldBeyond <= 0 || len(g.Nodes) <= s.foldBeyond {
		return f
	}
	sets := make(map[[2]int][]int)
	before, behind := alike(g, index, order)
	for i := range g.Nodes {
		key := [2]int{before[i], behind[i]}
		sets[key] = append(sets[key], i)
	}
	for i := range g.Nodes {
		set := sets[[2]int{before[i], behind[i]}]
		if len(set) <= s.foldBeyond || set[0] != i || s.opens(g, prefix, set) {
			continue
		}
		for _, member := range set {
			f.of[member] = len(f.list)
		}
		f.list = append(f.list, set)
	}
	return f
}

// opens reports whether a set of nodes is to be drawn one by one.
func (s *settings) opens(g *Graph, prefix string, set []int) bool {
	return len(s.open) > 0 && (s.open[foldID(g, prefix, set)] || slices.ContainsFunc(set, func(i int) bool {
		return s.open[prefix+g.Nodes[i].Name]
	}))
}

// alike numbers the nodes by what they are and what is before them, and by what they are and what is behind them:
// nodes are alike if both numbers are the same. Nodes with the same number have the same longest path before them, so
// edges between sets of nodes that are alike make no cycle.
func alike(g *Graph, index map[string]int, order []int) (before, behind []int) {
	c := newClasses()
	downs := make([][]edgeEnd, len(g.Nodes))
	before, behind = make([]int, len(g.Nodes)), make([]int, len(g.Nodes))
	var ends []uint64
	for _, i := range order {
		n := &g.Nodes[i]
		ends = ends[:0]
		for k := range n.Upstreams {
			up, kind := index[n.Upstreams[k].Node], c.edge(&n.Upstreams[k])
			ends = append(ends, uint64(before[up])<<32|kind)
			downs[up] = append(downs[up], edgeEnd{i, kind})
		}
		before[i] = c.number(n, n.Name == g.Return, ends)
	}
	clear(c.known)
	for _, i := range slices.Backward(order) {
		ends = ends[:0]
		for _, down := range downs[i] {
			ends = append(ends, uint64(behind[down.node])<<32|down.kind)
		}
		behind[i] = c.number(&g.Nodes[i], g.Nodes[i].Name == g.Return, ends)
	}
	return before, behind
}

// edgeEnd is the end of an edge of a kind, as classes numbers it.
type edgeEnd struct {
	node int
	kind uint64
}

// classes numbers what is equal alike.
type classes struct {
	known map[string]int
	edges map[Edge]uint64
	text  []byte
}

func newClasses() *classes {
	return &classes{known: make(map[string]int), edges: make(map[Edge]uint64)}
}

// edge returns the number of the kind of an edge.
func (c *classes) edge(e *Edge) uint64 {
	key := Edge{Kind: e.Kind, Case: e.Case, Data: e.Data}
	id, there := c.edges[key]
	if !there {
		id = uint64(len(c.edges))
		c.edges[key] = id
	}
	return id
}

// number returns the number of nodes that are the same, with these ends of their edges on one side.
func (c *classes) number(n *Node, returned bool, ends []uint64) int {
	c.text = append(c.text[:0], n.Kind...)
	c.text = append(append(append(append(c.text, 0), n.Text...), 0), n.Join...)
	c.text = append(c.text, 0, flag(n.Finally), flag(returned))
	slices.Sort(ends)
	for _, end := range ends {
		c.text = binary.LittleEndian.AppendUint64(c.text, end)
	}
	id, there := c.known[string(c.text)]
	if !there {
		id = len(c.known)
		c.known[string(c.text)] = id
	}
	return id
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// foldSuffix makes an ID that no node has.
const foldSuffix = "/*"

func foldID(g *Graph, prefix string, set []int) string {
	return prefix + g.Nodes[set[0]].Name + foldSuffix
}

// fold makes the box of a node that of a fold.
func (s *settings) fold(b *Box, g *Graph, prefix string, set []int) {
	first, last := g.Nodes[set[0]].Name, g.Nodes[set[len(set)-1]].Name
	b.ID, b.Name = foldID(g, prefix, set), first+" … "+last
	if same := commonPrefix(first, last); same > 1 {
		b.Name = first + " … " + last[same:]
	}
	b.Of, b.Kind, b.Count, b.CanOpen = b.Kind, Fold, len(set), true
	b.Members = make([]string, len(set))
	for i, member := range set {
		b.Members[i] = prefix + g.Nodes[member].Name
	}
}

// commonPrefix returns the length of the text without digits at its end with which both names begin.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return len(strings.TrimRight(a[:n], "0123456789"))
}
