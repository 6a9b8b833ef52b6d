package layout

import (
	"math"
	"slices"
)

// align gives each vertex its place across, by the method of Brandes and Köpf: four times, it aligns vertices with a
// median adjacent node, each time beginning in another corner, and moves the aligned blocks together; each vertex gets
// the mean of the two places in the middle. Lines through many layers are straight, and the order of a layer stays.
func (k *sketch) align() {
	ups := k.sortedUps()
	k.markConflicts(ups)
	downs := k.downsOf(ups)
	var found [4][]float64
	count := len(k.vertices)
	a := alignment{
		sketch: k, root: make([]int, count), next: make([]int, count), at: make([]int, count), open: make([]int, count),
		arcs: make([][]arc, count),
	}
	for i := range found {
		a.forward, a.fromTop = i%2 == 0, i < 2
		near := ups
		if !a.forward {
			near = downs
		}
		found[i] = a.run(near)
	}
	k.balance(found)
}

// balance takes the mean of the two middle ones of four places, after it has moved them onto the narrowest.
func (k *sketch) balance(found [4][]float64) {
	var low, high [4]float64
	narrow := 0
	for i, places := range found {
		low[i], high[i] = math.Inf(1), math.Inf(-1)
		for v, place := range places {
			low[i] = min(low[i], place-k.vertices[v].size/2)
			high[i] = max(high[i], place+k.vertices[v].size/2)
		}
		if high[i]-low[i] < high[narrow]-low[narrow] {
			narrow = i
		}
	}
	for v := range k.vertices {
		var four [4]float64
		for i := range found {
			four[i] = found[i][v] + low[narrow] - low[i]
			if i >= 2 {
				four[i] = found[i][v] + high[narrow] - high[i]
			}
		}
		slices.Sort(four[:])
		k.vertices[v].center = math.Floor((four[1]+four[2])/2 + 0.5)
	}
	top := math.Inf(1)
	for v := range k.vertices {
		top = min(top, k.vertices[v].center-k.vertices[v].size/2)
	}
	for v := range k.vertices {
		k.vertices[v].center -= top
	}
}

// apart is the least distance of the centers of two vertices beside each other: a whole number.
func (k *sketch) apart(a, b int) float64 {
	gap := float64(nodeGap)
	switch {
	case k.bend(a) && k.bend(b):
		gap = bendGap
	case k.bend(a) || k.bend(b):
		gap = passGap
	}
	return math.Ceil((k.vertices[a].size+k.vertices[b].size)/2 + gap)
}

// adjacent is a node at the other end of a line between two layers.
type adjacent struct {
	vertex int32
	// conflict marks a line that crosses one between two bends, which has the right to be straight.
	conflict bool
}

// sortedUps returns the adjacent nodes in the layers before, in the order of their places.
func (k *sketch) sortedUps() [][]adjacent {
	ups := adjacentLike(k.ups)
	for _, layer := range k.layers {
		for _, v := range layer {
			for _, down := range k.downs[v] {
				ups[down] = append(ups[down], adjacent{vertex: int32(v)})
			}
		}
	}
	return ups
}

// downsOf returns the adjacent nodes in the layers behind, in the order of their places, with the marks of ups.
func (k *sketch) downsOf(ups [][]adjacent) [][]adjacent {
	downs := adjacentLike(k.downs)
	for _, layer := range k.layers {
		for _, v := range layer {
			for _, up := range ups[v] {
				downs[up.vertex] = append(downs[up.vertex], adjacent{int32(v), up.conflict})
			}
		}
	}
	return downs
}

// adjacentLike returns empty slices with room for as many adjacent nodes, in one array.
func adjacentLike(near [][]int32) [][]adjacent {
	total := 0
	for _, list := range near {
		total += len(list)
	}
	all, parts := make([]adjacent, total), make([][]adjacent, len(near))
	for v, list := range near {
		parts[v], all = all[:0:len(list)], all[len(list):]
	}
	return parts
}

// markConflicts marks the lines that cross one between two bends.
func (k *sketch) markConflicts(ups [][]adjacent) {
	for at := 1; at < len(k.layers); at++ {
		layer := k.layers[at]
		low, scanned := 0, 0
		for i, v := range layer {
			high, inner := len(k.layers[at-1]), false
			if k.bend(v) && k.bend(int(k.ups[v][0])) {
				high, inner = int(k.places[k.ups[v][0]]), true
			}
			if !inner && i < len(layer)-1 {
				continue
			}
			for ; scanned <= i; scanned++ {
				w := layer[scanned]
				for n := range ups[w] {
					up := int(ups[w][n].vertex)
					place := int(k.places[up])
					if (place < low || place > high) && !(k.bend(w) && k.bend(up)) {
						ups[w][n].conflict = true
					}
				}
			}
			low = high
		}
	}
}

// alignment is one of the four.
type alignment struct {
	*sketch
	forward, fromTop bool
	// root and next are the first vertex and the next one in the block of each vertex; at are the places in the layers
	// as this alignment sees them.
	root, next, at []int
	open           []int // how many blocks before one have no place yet
	arcs           [][]arc
	allArcs        []arc
}

// arc leads from a block to one behind it in a layer.
type arc struct {
	to    int
	apart float64
}

func (a *alignment) run(near [][]adjacent) []float64 {
	layers := cloneLayers(a.layers)
	if !a.forward {
		slices.Reverse(layers)
	}
	for _, layer := range layers {
		if !a.fromTop {
			slices.Reverse(layer)
		}
		for i, v := range layer {
			a.at[v] = i
		}
	}
	a.chain(layers, near)
	place := a.compact(layers)
	if !a.fromTop {
		for v := range place {
			place[v] = -place[v]
		}
	}
	return place
}

// chain aligns each vertex with a median adjacent node, if no other line crosses that.
func (a *alignment) chain(layers [][]int, near [][]adjacent) {
	for v := range a.vertices {
		a.root[v], a.next[v] = v, v
	}
	for _, layer := range layers {
		last := -1
		for _, v := range layer {
			count := len(near[v])
			for m := (count - 1) / 2; count > 0 && m <= count/2; m++ {
				n := near[v][m]
				if !a.fromTop {
					n = near[v][count-1-m]
				}
				w := int(n.vertex)
				if a.next[v] != v || a.at[w] <= last || n.conflict {
					continue
				}
				a.next[w] = v
				a.root[v] = a.root[w]
				a.next[v] = a.root[v]
				last = a.at[w]
			}
		}
	}
}

// compact gives each block the least place that keeps its distances, then moves it towards those behind it.
func (a *alignment) compact(layers [][]int) []float64 {
	a.connect(layers)
	count := len(a.vertices)
	order := make([]int, 0, count)
	for v := range a.vertices {
		if a.root[v] == v && a.open[v] == 0 {
			order = append(order, v)
		}
	}
	place := make([]float64, count)
	for i := 0; i < len(order); i++ {
		for _, e := range a.arcs[order[i]] {
			place[e.to] = max(place[e.to], place[order[i]]+e.apart)
			if a.open[e.to]--; a.open[e.to] == 0 {
				order = append(order, e.to)
			}
		}
	}
	for _, v := range slices.Backward(order) {
		most := math.Inf(1)
		for _, e := range a.arcs[v] {
			most = min(most, place[e.to]-e.apart)
		}
		if !math.IsInf(most, 1) {
			place[v] = max(place[v], most)
		}
	}
	for v := range a.vertices {
		place[v] = place[a.root[v]]
	}
	return place
}

// connect fills arcs and open.
func (a *alignment) connect(layers [][]int) {
	clear(a.open)
	counts, total := make([]int, len(a.vertices)), 0
	for _, layer := range layers {
		for i := 1; i < len(layer); i++ {
			counts[a.root[layer[i-1]]]++
			a.open[a.root[layer[i]]]++
			total++
		}
	}
	if len(a.allArcs) < total {
		a.allArcs = make([]arc, total)
	}
	rest := a.allArcs
	for v, n := range counts {
		a.arcs[v], rest = rest[:0:n], rest[n:]
	}
	for _, layer := range layers {
		for i := 1; i < len(layer); i++ {
			from := a.root[layer[i-1]]
			a.arcs[from] = append(a.arcs[from], arc{a.root[layer[i]], a.apart(layer[i-1], layer[i])})
		}
	}
}
