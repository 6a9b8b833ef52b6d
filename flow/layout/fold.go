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
	type half struct {
		node int
		edge *Edge
	}
	downs := make([][]half, len(g.Nodes))
	before, behind = make([]int, len(g.Nodes)), make([]int, len(g.Nodes))
	var text []byte
	var parts []string
	number := func(known map[string]int, n *Node, count int, part func(int) (int, *Edge)) int {
		text = append(text[:0], n.Kind...)
		text = append(append(append(append(text, 0), n.Text...), 0), n.Join...)
		text = append(text, 0, flag(n.Finally), flag(n.Name == g.Return))
		parts = parts[:0]
		for i := range count {
			class, e := part(i)
			p := binary.AppendUvarint(nil, uint64(class))
			p = append(append(append(p, flag(e.Data)), e.Kind...), 0)
			parts = append(parts, string(append(p, e.Case...)))
		}
		slices.Sort(parts)
		for _, p := range parts {
			text = append(binary.AppendUvarint(text, uint64(len(p))), p...)
		}
		id, there := known[string(text)]
		if !there {
			id = len(known)
			known[string(text)] = id
		}
		return id
	}
	known := make(map[string]int)
	for _, i := range order {
		n := &g.Nodes[i]
		before[i] = number(known, n, len(n.Upstreams), func(k int) (int, *Edge) {
			return before[index[n.Upstreams[k].Node]], &n.Upstreams[k]
		})
		for k := range n.Upstreams {
			up := index[n.Upstreams[k].Node]
			downs[up] = append(downs[up], half{i, &n.Upstreams[k]})
		}
	}
	clear(known)
	for _, i := range slices.Backward(order) {
		behind[i] = number(known, &g.Nodes[i], len(downs[i]), func(k int) (int, *Edge) {
			return behind[downs[i][k].node], downs[i][k].edge
		})
	}
	return before, behind
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
