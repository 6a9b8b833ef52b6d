package flowgraph

import (
	"cmp"
	"slices"
	"strings"
)

// maxCycles bounds how many cycles are reported, and maxCyclePath how many nodes of one.
const (
	maxCycles    = 16
	maxCyclePath = 64
)

// topology is a graph by node numbers. Edges from nodes that do not exist are left out.
type topology struct {
	g   *Graph
	ups [][]int
}

func newTopology(g *Graph, index map[string]int) topology {
	t := topology{g: g, ups: make([][]int, len(g.Nodes))}
	all := make([]int, 0, g.edgeCount())
	for i := range g.Nodes {
		start := len(all)
		for _, up := range g.Nodes[i].Upstreams {
			if from, ok := index[up.Node]; ok {
				all = append(all, from)
			}
		}
		t.ups[i] = all[start:len(all):len(all)]
	}
	return t
}

// levels gives each node the length of the longest path that leads to it, and -1 to nodes in or after a cycle. It
// ignores the nodes in gone.
func (t topology) levels(gone []bool) []int {
	downs := make([][]int, len(t.ups))
	open := make([]int, len(t.ups))
	level := make([]int, len(t.ups))
	var queue []int
	for i, ups := range t.ups {
		level[i] = -1
		for _, up := range ups {
			if !gone[up] {
				downs[up] = append(downs[up], i)
				open[i]++
			}
		}
		if open[i] == 0 && !gone[i] {
			level[i] = 0
			queue = append(queue, i)
		}
	}
	deepest := make([]int, len(t.ups))
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, down := range downs[i] {
			deepest[down] = max(deepest[down], level[i]+1)
			if open[down]--; open[down] == 0 && !gone[down] {
				level[down] = deepest[down]
				queue = append(queue, down)
			}
		}
	}
	return level
}

// order lists each node after the nodes where its edges begin, and omits nodes in and after cycles.
func (t topology) order() []int {
	levels := t.levels(make([]bool, len(t.ups)))
	order := make([]int, 0, len(levels))
	for i, level := range levels {
		if level >= 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(levels[a], levels[b]) })
	return order
}

// cycles describes cycles as "a -> b -> a", in the direction of the edges, leaving out the nodes of each reported cycle
// when it searches for the next.
func (t topology) cycles() []string {
	var found []string
	gone := make([]bool, len(t.ups))
	for len(found) < maxCycles {
		level := t.levels(gone)
		start := slices.IndexFunc(level, func(l int) bool { return l < 0 })
		for start >= 0 && gone[start] {
			next := slices.IndexFunc(level[start+1:], func(l int) bool { return l < 0 })
			if next < 0 {
				return found
			}
			start += 1 + next
		}
		if start < 0 {
			return found
		}
		cycle := t.cycleFrom(start, level, gone)
		for _, i := range cycle {
			gone[i] = true
		}
		found = append(found, t.describe(cycle))
	}
	return found
}

// cycleFrom walks upstream from a node that Kahn's order does not reach. Each such node has an upstream of its kind, so
// the walk must meet itself.
func (t topology) cycleFrom(start int, level []int, gone []bool) []int {
	step := make(map[int]int)
	var path []int
	for i := start; ; {
		if first, met := step[i]; met {
			cycle := path[first:]
			slices.Reverse(cycle)
			return cycle
		}
		step[i] = len(path)
		path = append(path, i)
		i = t.ups[i][slices.IndexFunc(t.ups[i], func(up int) bool { return level[up] < 0 && !gone[up] })]
	}
}

// describe begins with the node declared first.
func (t topology) describe(cycle []int) string {
	first := slices.Index(cycle, slices.Min(cycle))
	names := make([]string, 0, len(cycle)+1)
	for i := range len(cycle) + 1 {
		names = append(names, t.g.Nodes[cycle[(first+i)%len(cycle)]].Name)
	}
	if len(names) > maxCyclePath {
		names = append(names[:maxCyclePath-1], "…", names[0])
	}
	return strings.Join(names, " -> ")
}
