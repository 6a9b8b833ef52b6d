package layout

import (
	"fmt"
	"strings"
)

// level is one graph as it is drawn: its nodes, with folds and marks. The graphs in open nodes are levels of their own.
type level struct {
	items []item
}

// item is what stands in a layer: a node, a fold, a mark or an open node.
type item struct {
	box Box // without its place
	// inner is what is drawn inside an open node; nil for others.
	inner *placed
	ups   []link
}

// link is an edge between two items of a level.
type link struct {
	from  int
	edge  Edge // without Node
	count int
}

// newLevel checks g and returns what is drawn of it. prefix stands before the names of its nodes in their IDs.
func (s *settings) newLevel(g *Graph, prefix string, depth int) (*level, error) {
	index, err := checkNames(g)
	if err != nil {
		return nil, err
	}
	order, err := checkEdges(g, index)
	if err != nil {
		return nil, err
	}
	folds := s.folds(g, prefix, index, order)
	l := &level{}
	itemOf := make([]int, len(g.Nodes)) // by the number of the node
	for i := range g.Nodes {
		if fold := folds.of[i]; fold >= 0 && folds.list[fold][0] != i {
			itemOf[i] = itemOf[folds.list[fold][0]]
			continue
		}
		itemOf[i] = len(l.items)
		it, err := s.item(g, prefix, i, folds, depth)
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, it)
	}
	l.connect(g, index, itemOf)
	if prefix == "" {
		l.marks(g, index, itemOf)
	}
	return l, nil
}

func checkNames(g *Graph) (map[string]int, error) {
	index := make(map[string]int, len(g.Nodes))
	for i := range g.Nodes {
		name := g.Nodes[i].Name
		if _, twice := index[name]; twice {
			return nil, fmt.Errorf("%w: flow %q has two nodes %q", ErrGraph, g.Name, name)
		}
		if name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%w: flow %q has a node with the name %q, which is empty or has a /", ErrGraph,
				g.Name, name)
		}
		index[name] = i
	}
	if _, known := index[g.Return]; g.Return != "" && !known {
		return nil, fmt.Errorf("%w: flow %q returns the result of node %q, which it does not have", ErrGraph,
			g.Name, g.Return)
	}
	return index, nil
}

// checkEdges returns the numbers of the nodes, upstreams before those that depend on them.
func checkEdges(g *Graph, index map[string]int) ([]int, error) {
	open, froms, err := upstreamsOf(g, index)
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(g.Nodes))
	for _, from := range froms {
		counts[from]++
	}
	downs := partition[int](counts, len(froms))
	order := make([]int, 0, len(g.Nodes))
	for i := range g.Nodes {
		for _, from := range froms[:open[i]] {
			downs[from] = append(downs[from], i)
		}
		froms = froms[open[i]:]
		if open[i] == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, down := range downs[order[at]] {
			if open[down]--; open[down] == 0 {
				order = append(order, down)
			}
		}
	}
	for i := range open {
		if open[i] > 0 {
			return nil, fmt.Errorf("%w: node %q of flow %q is in a cycle or behind one", ErrGraph, g.Nodes[i].Name,
				g.Name)
		}
	}
	return order, nil
}

// upstreamsOf returns how many upstreams each node has, and the numbers of all of them, node by node.
func upstreamsOf(g *Graph, index map[string]int) (counts, froms []int, err error) {
	counts = make([]int, len(g.Nodes))
	for i := range g.Nodes {
		counts[i] = len(g.Nodes[i].Upstreams)
		for k := range g.Nodes[i].Upstreams {
			from, known := index[g.Nodes[i].Upstreams[k].Node]
			if !known {
				return nil, nil, fmt.Errorf("%w: node %q depends on %q, which flow %q does not have", ErrGraph,
					g.Nodes[i].Name, g.Nodes[i].Upstreams[k].Node, g.Name)
			}
			froms = append(froms, from)
		}
	}
	return counts, froms, nil
}

// maxOpenDepth bounds how deep open nodes are drawn inside each other, for graphs that contain themselves.
const maxOpenDepth = 16

// item returns node i of g, or the fold that begins with it.
func (s *settings) item(g *Graph, prefix string, i int, folds folds, depth int) (item, error) {
	n := &g.Nodes[i]
	it := item{box: Box{
		ID: prefix + n.Name, Name: n.Name, Kind: n.Kind, Text: n.Text, Join: n.Join, Finally: n.Finally, Count: n.Count,
		CanOpen: n.Inner != nil, Group: strings.TrimSuffix(prefix, "/"),
		W: s.nodeWidth, H: NodeHeight,
	}}
	if fold := folds.of[i]; fold >= 0 {
		s.fold(&it.box, g, prefix, folds.list[fold])
		return it, nil
	}
	if n.Inner == nil || !s.open[it.box.ID] || depth >= maxOpenDepth {
		return it, nil
	}
	inner, err := s.place(n.Inner, it.box.ID+"/", depth+1)
	if err != nil {
		return it, fmt.Errorf("in node %q: %w", it.box.ID, err)
	}
	it.inner = inner
	it.box.W, it.box.H = inner.w+2*groupInset, inner.h+groupHead+groupInset
	if s.direction == Down {
		it.box.W, it.box.H = inner.h+2*groupInset, inner.w+groupHead+groupInset
	}
	it.box.W = max(it.box.W, s.nodeWidth)
	return it, nil
}

// connect adds the edges between items. Those between a fold and another item for the same outcome are one link.
func (l *level) connect(g *Graph, index map[string]int, itemOf []int) {
	type pair struct{ from, to int }
	known := make(map[pair][]int) // the links of pairs with a fold, which has many equal ones
	for i := range g.Nodes {
		to := itemOf[i]
		target := &l.items[to]
		if target.ups == nil {
			target.ups = make([]link, 0, len(g.Nodes[i].Upstreams))
		}
		for _, up := range g.Nodes[i].Upstreams {
			p := pair{itemOf[index[up.Node]], to}
			folded := target.box.Kind == Fold || l.items[p.from].box.Kind == Fold
			at := -1
			for _, k := range known[p] {
				if e := target.ups[k].edge; e.Kind == up.Kind && e.Case == up.Case {
					at = k
				}
			}
			if at < 0 {
				at = len(target.ups)
				target.ups = append(target.ups, link{from: p.from, edge: Edge{Kind: up.Kind, Case: up.Case}})
				if folded {
					known[p] = append(known[p], at)
				}
			}
			target.ups[at].count++
			target.ups[at].edge.Data = target.ups[at].edge.Data || up.Data
		}
	}
}

// marks adds the mark before the nodes without upstreams and the one behind the node whose result is the flow's.
func (l *level) marks(g *Graph, index map[string]int, itemOf []int) {
	nodes := len(l.items)
	data := Edge{Kind: OnSuccess, Data: true}
	if g.Input != "" {
		start := len(l.items)
		for i := range nodes {
			if it := &l.items[i]; len(it.ups) == 0 {
				it.ups = []link{{from: start, edge: data, count: max(1, len(it.box.Members))}}
			}
		}
		l.items = append(l.items, item{box: mark(Start, "input", g.Input)})
	}
	if g.Return != "" {
		ups := []link{{from: itemOf[index[g.Return]], edge: data, count: 1}}
		l.items = append(l.items, item{box: mark(End, "result", g.Result), ups: ups})
	}
}

// markSize is the diameter of the marks at start and end.
const markSize = 10

// mark returns a mark. Its ID is no name of a node.
func mark(kind Kind, name, text string) Box {
	return Box{ID: "/" + string(kind), Name: name, Kind: kind, Text: text, W: markSize, H: markSize}
}
