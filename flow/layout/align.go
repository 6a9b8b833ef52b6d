package layout

import (
	"math"
	"slices"
)

// align gives each vertex its place across, by the method of Brandes and Köpf: four times, it aligns vertices with a
// median neighbour, each time beginning in another corner, and moves the aligned blocks together; each vertex gets the
// mean of the two places in the middle. Lines through many layers are straight, and the order of a layer stays.
func (k *sketch) align() {
	conflicts := k.conflicts()
	var found [4][]float64
	for i := range found {
		a := alignment{sketch: k, forward: i%2 == 0, fromTop: i < 2}
		a.run(conflicts)
		found[i] = a.place
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

// conflicts returns the lines that cross one between two bends, which has the right to be straight.
func (k *sketch) conflicts() map[[2]int]bool {
	found := make(map[[2]int]bool)
	for at := 1; at < len(k.layers); at++ {
		layer := k.layers[at]
		low, scanned := 0, 0
		for i, v := range layer {
			high, inner := len(k.layers[at-1]), false
			if k.bend(v) && k.bend(k.ups[v][0]) {
				high, inner = k.vertices[k.ups[v][0]].place, true
			}
			if !inner && i < len(layer)-1 {
				continue
			}
			for ; scanned <= i; scanned++ {
				w := layer[scanned]
				for _, up := range k.ups[w] {
					place := k.vertices[up].place
					if (place < low || place > high) && !(k.bend(w) && k.bend(up)) {
						found[[2]int{up, w}] = true
					}
				}
			}
			low = high
		}
	}
	return found
}

// alignment is one of the four.
type alignment struct {
	*sketch
	forward, fromTop bool
	root, next       []int
	place            []float64
}

func (a *alignment) run(conflicts map[[2]int]bool) {
	layers := cloneLayers(a.layers)
	near := a.ups
	if !a.forward {
		slices.Reverse(layers)
		near = a.downs
	}
	at := make([]int, len(a.vertices)) // places in the layers as this alignment sees them
	for _, layer := range layers {
		if !a.fromTop {
			slices.Reverse(layer)
		}
		for i, v := range layer {
			at[v] = i
		}
	}
	a.chain(layers, near, at, conflicts)
	a.compact(layers)
	if !a.fromTop {
		for v := range a.place {
			a.place[v] = -a.place[v]
		}
	}
}

// chain aligns each vertex with a median neighbour, if no other line crosses that.
func (a *alignment) chain(layers [][]int, near [][]int, at []int, conflicts map[[2]int]bool) {
	a.root, a.next = make([]int, len(a.vertices)), make([]int, len(a.vertices))
	for v := range a.vertices {
		a.root[v], a.next[v] = v, v
	}
	var sorted []int
	for _, layer := range layers {
		last := -1
		for _, v := range layer {
			sorted = append(sorted[:0], near[v]...)
			if len(sorted) > 1 {
				slices.SortFunc(sorted, func(x, y int) int { return at[x] - at[y] })
			}
			for m := (len(sorted) - 1) / 2; len(sorted) > 0 && m <= len(sorted)/2; m++ {
				w := sorted[m]
				if a.next[v] != v || at[w] <= last ||
					len(conflicts) > 0 && (conflicts[[2]int{w, v}] || conflicts[[2]int{v, w}]) {
					continue
				}
				a.next[w] = v
				a.root[v] = a.root[w]
				a.next[v] = a.root[v]
				last = at[w]
			}
		}
	}
}

// compact gives each block the least place that keeps its distances, then moves it towards those behind it.
func (a *alignment) compact(layers [][]int) {
	count := len(a.vertices)
	type arc struct {
		to    int
		apart float64
	}
	open, arcCount, total := make([]int, count), make([]int, count), 0
	for _, layer := range layers {
		for i := 1; i < len(layer); i++ {
			arcCount[a.root[layer[i-1]]]++
			open[a.root[layer[i]]]++
			total++
		}
	}
	arcs, all := make([][]arc, count), make([]arc, total)
	for v, n := range arcCount {
		arcs[v], all = all[:0:n], all[n:]
	}
	for _, layer := range layers {
		for i := 1; i < len(layer); i++ {
			from := a.root[layer[i-1]]
			arcs[from] = append(arcs[from], arc{a.root[layer[i]], a.apart(layer[i-1], layer[i])})
		}
	}
	order := make([]int, 0, count)
	for v := range a.vertices {
		if a.root[v] == v && open[v] == 0 {
			order = append(order, v)
		}
	}
	place := make([]float64, count)
	for i := 0; i < len(order); i++ {
		for _, e := range arcs[order[i]] {
			place[e.to] = max(place[e.to], place[order[i]]+e.apart)
			if open[e.to]--; open[e.to] == 0 {
				order = append(order, e.to)
			}
		}
	}
	for _, v := range slices.Backward(order) {
		most := math.Inf(1)
		for _, e := range arcs[v] {
			most = min(most, place[e.to]-e.apart)
		}
		if !math.IsInf(most, 1) {
			place[v] = max(place[v], most)
		}
	}
	a.place = make([]float64, count)
	for v := range a.vertices {
		a.place[v] = place[a.root[v]]
	}
}
