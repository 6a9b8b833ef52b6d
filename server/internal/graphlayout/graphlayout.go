package graphlayout

import (
	"cmp"
	"slices"
)

// Sizes of nodes and gaps, in pixels.
const (
	NodeWidth, NodeHeight = 134, 46
	gapX, gapY            = 64, 32
	margin                = 24
	// sweeps is how often the order within layers is improved, moves how often the places are.
	sweeps, moves = 8, 6
	channel       = 6
)

// Edge leads from one node to another, by their numbers.
type Edge struct{ From, To int }

// Point is a corner of a line, or the upper left corner of a node.
type Point struct{ X, Y int }

// Placed is a graph with places.
type Placed struct {
	Width, Height int
	Nodes         []Point
	// Lines are the corners of the edges, in their order.
	Lines [][]Point
}

// cell is a node, or the place at which a long edge crosses a layer.
type cell struct {
	node     int // -1 for a crossing
	layer    int
	y        int
	rank     float64
	from, to []int
}

type layout struct {
	cells  []cell
	layers [][]int
	chains [][]int // cells of each edge, from its upstream to its node
}

// Place places a graph of n nodes without cycles. Equal graphs get equal places.
func Place(n int, edges []Edge) Placed {
	l := &layout{cells: make([]cell, n), chains: make([][]int, len(edges))}
	for i, layer := range layersOf(n, edges) {
		l.cells[i] = cell{node: i, layer: layer}
	}
	for i, e := range edges {
		l.connect(i, e)
	}
	l.fill()
	for i := range sweeps {
		l.sweep(i%2 == 0)
	}
	l.place()
	return l.result(n, edges)
}

// layersOf returns the length of the longest path to each node.
func layersOf(n int, edges []Edge) []int {
	layers, open, next := make([]int, n), make([]int, n), make([][]int, n)
	for _, e := range edges {
		open[e.To]++
		next[e.From] = append(next[e.From], e.To)
	}
	var ready []int
	for i, count := range open {
		if count == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		for _, j := range next[i] {
			layers[j] = max(layers[j], layers[i]+1)
			if open[j]--; open[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	return layers
}

func (l *layout) connect(i int, e Edge) {
	at := e.From
	chain := []int{at}
	for layer := l.cells[e.From].layer + 1; layer < l.cells[e.To].layer; layer++ {
		l.cells = append(l.cells, cell{node: -1, layer: layer})
		l.link(at, len(l.cells)-1)
		at = len(l.cells) - 1
		chain = append(chain, at)
	}
	l.link(at, e.To)
	l.chains[i] = append(chain, e.To)
}

func (l *layout) link(a, b int) {
	l.cells[a].to = append(l.cells[a].to, b)
	l.cells[b].from = append(l.cells[b].from, a)
}

func (l *layout) fill() {
	for i, c := range l.cells {
		for len(l.layers) <= c.layer {
			l.layers = append(l.layers, nil)
		}
		l.layers[c.layer] = append(l.layers[c.layer], i)
	}
	for _, layer := range l.layers {
		for rank, i := range layer {
			l.cells[i].rank = float64(rank)
		}
	}
}

// sweep orders each layer by the middle of its neighbours in the layer before, or behind it.
func (l *layout) sweep(down bool) {
	for k := range l.layers {
		if !down {
			k = len(l.layers) - 1 - k
		}
		layer := l.layers[k]
		middle := make(map[int]float64, len(layer))
		for _, i := range layer {
			near := l.cells[i].from
			if !down {
				near = l.cells[i].to
			}
			middle[i] = l.cells[i].rank
			if len(near) > 0 {
				sum := 0.0
				for _, j := range near {
					sum += l.cells[j].rank
				}
				middle[i] = sum / float64(len(near))
			}
		}
		slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(middle[a], middle[b]) })
		for rank, i := range layer {
			l.cells[i].rank = float64(rank)
		}
	}
}

func (l *layout) height(i int) int {
	if l.cells[i].node < 0 {
		return 10
	}
	return NodeHeight
}

// place gives each cell its middle: first one below the other, then as near to its neighbours as the order allows.
func (l *layout) place() {
	for _, layer := range l.layers {
		y := 0
		for _, i := range layer {
			l.cells[i].y = y + l.height(i)/2
			y += l.height(i) + gapY
		}
	}
	for round := range moves {
		for k := range l.layers {
			if round%2 == 1 {
				k = len(l.layers) - 1 - k
			}
			l.settle(l.layers[k], round%2 == 0)
		}
	}
}

// settle moves the cells of a layer to the middle of their neighbours, in their order and with gaps between them.
func (l *layout) settle(layer []int, down bool) {
	want := make([]int, len(layer))
	for at, i := range layer {
		near := l.cells[i].from
		if !down || len(near) == 0 {
			near = append(slices.Clone(near), l.cells[i].to...)
		}
		want[at] = l.cells[i].y
		if len(near) > 0 {
			ys := make([]int, len(near))
			for n, j := range near {
				ys[n] = l.cells[j].y
			}
			slices.Sort(ys)
			want[at] = (ys[(len(ys)-1)/2] + ys[len(ys)/2]) / 2
		}
	}
	low, high := slices.Clone(want), slices.Clone(want)
	gap := func(at int) int { return (l.height(layer[at])+l.height(layer[at-1]))/2 + gapY }
	for at := 1; at < len(layer); at++ {
		low[at] = max(low[at], low[at-1]+gap(at))
	}
	for at := len(layer) - 2; at >= 0; at-- {
		high[at] = min(high[at], high[at+1]-gap(at+1))
	}
	for at, i := range layer {
		l.cells[i].y = (low[at] + high[at]) / 2
	}
}

func (l *layout) result(n int, edges []Edge) Placed {
	top := 0
	for _, c := range l.cells {
		top = min(top, c.y-NodeHeight/2)
	}
	out := Placed{Nodes: make([]Point, n), Lines: make([][]Point, len(edges))}
	x := func(layer int) int { return margin + layer*(NodeWidth+gapX) }
	for i := range l.cells {
		c := &l.cells[i]
		c.y += margin - top
		out.Height = max(out.Height, c.y+NodeHeight/2+margin)
		if c.node >= 0 {
			out.Nodes[c.node] = Point{x(c.layer), c.y - NodeHeight/2}
			out.Width = max(out.Width, x(c.layer)+NodeWidth+margin)
		}
	}
	ports := l.ports(edges)
	for i, chain := range l.chains {
		out.Lines[i] = l.line(chain, ports[i], x)
	}
	return out
}

// ports returns how far above or below the middle of its node each edge ends.
func (l *layout) ports(edges []Edge) []int {
	into := map[int][]int{}
	for i, e := range edges {
		into[e.To] = append(into[e.To], i)
	}
	ports := make([]int, len(edges))
	for _, list := range into {
		slices.SortStableFunc(list, func(a, b int) int {
			return cmp.Compare(l.before(a), l.before(b))
		})
		step := 8
		if len(list) > 5 {
			step = 32 / len(list)
		}
		for at, i := range list {
			ports[i] = step*at - step*(len(list)-1)/2
		}
	}
	return ports
}

// before returns the height at which an edge leaves the layer before its node.
func (l *layout) before(edge int) int { return l.cells[l.chains[edge][len(l.chains[edge])-2]].y }

// line returns the corners of an edge: level in layers, upright between them.
func (l *layout) line(chain []int, port int, x func(int) int) []Point {
	first := l.cells[chain[0]]
	at := Point{x(first.layer) + NodeWidth, first.y}
	line := []Point{at}
	for n, i := range chain[1:] {
		c := l.cells[i]
		y := c.y
		if n == len(chain)-2 {
			y += port
		}
		left := x(c.layer)
		if y != at.Y {
			turn := left - gapX/2 + channel*(first.node%5-2)
			line = append(line, Point{turn, at.Y}, Point{turn, y})
		}
		at = Point{left, y}
		if n < len(chain)-2 {
			at.X += NodeWidth
		}
	}
	return append(line, at)
}
