package layout

import (
	"math"
	"slices"
)

// order puts the vertices of each layer into an order with few crossings. It never has more than the order before.
func (k *sketch) order() {
	size := len(k.vertices)
	for i := range k.ups {
		size += len(k.ups[i])
	}
	// Both bounds limit work, not time, so that equal graphs have equal orders on every machine.
	sweeps := min(24, max(4, 150_000/max(size, 1)))
	x := sweeper{sketch: k}
	best := k.crossings(math.MaxInt)
	kept := cloneLayers(k.layers)
	unchanged := 0
	for i := 0; i < sweeps && best > 0 && unchanged < 4; i++ {
		x.sweep(i%2 == 0)
		unchanged++
		if size <= 8_000 {
			k.transpose()
		}
		if count := k.crossings(best); count < best {
			best, unchanged = count, 0
			for at := range kept {
				copy(kept[at], k.layers[at])
			}
		}
	}
	k.layers = kept
	k.number()
}

func cloneLayers(layers [][]int) [][]int {
	c := make([][]int, len(layers))
	for i := range layers {
		c[i] = slices.Clone(layers[i])
	}
	return c
}

// A key of sweep is the mean place of neighbours, in fixed point, above the place of the vertex itself.
const (
	placeBits    = 20
	fractionBits = 24
)

// sweeper sorts layers, with space for one of them.
type sweeper struct {
	*sketch
	keys   []uint64
	before []int
}

// sweep sorts each layer by the mean place of the neighbours in the layer before, or the one behind. Vertices with the
// same mean keep their order. A layer with a million vertices stays as it is.
func (k *sweeper) sweep(forward bool) {
	for step := range k.layers {
		at, near := step, k.ups
		if !forward {
			at, near = len(k.layers)-1-step, k.downs
		}
		layer := k.layers[at]
		if len(layer) >= 1<<placeBits {
			continue
		}
		k.keys = k.keys[:0]
		for place, v := range layer {
			mean := uint64(place) << fractionBits
			if len(near[v]) > 0 {
				sum := 0
				for _, w := range near[v] {
					sum += k.vertices[w].place
				}
				mean = uint64(sum) << fractionBits / uint64(len(near[v]))
			}
			k.keys = append(k.keys, mean<<placeBits|uint64(place))
		}
		if slices.IsSorted(k.keys) {
			continue
		}
		slices.Sort(k.keys)
		k.before = append(k.before[:0], layer...)
		for place, key := range k.keys {
			v := k.before[key&(1<<placeBits-1)]
			layer[place], k.vertices[v].place = v, place
		}
	}
}

// transpose exchanges vertices beside each other where that removes crossings.
func (k *sketch) transpose() {
	byPlace := func(a, b int) int { return k.vertices[a].place - k.vertices[b].place }
	for range 3 {
		changed := false
		for _, layer := range k.layers {
			for _, v := range layer {
				slices.SortFunc(k.ups[v], byPlace)
				slices.SortFunc(k.downs[v], byPlace)
			}
			for i := 1; i < len(layer); i++ {
				a, b := layer[i-1], layer[i]
				now := k.pairCrossings(k.ups[a], k.ups[b]) + k.pairCrossings(k.downs[a], k.downs[b])
				if now == 0 {
					continue
				}
				then := k.pairCrossings(k.ups[b], k.ups[a]) + k.pairCrossings(k.downs[b], k.downs[a])
				if then < now {
					layer[i-1], layer[i] = b, a
					k.vertices[a].place, k.vertices[b].place = i, i-1
					changed = true
				}
			}
		}
		if !changed {
			return
		}
	}
}

// pairCrossings counts the crossings of the lines of two vertices, the first of which stands before the second. The
// neighbours are in the order of their places.
func (k *sketch) pairCrossings(first, second []int) int {
	count, behind := 0, 0
	for _, w := range first {
		for behind < len(second) && k.vertices[second[behind]].place < k.vertices[w].place {
			behind++
		}
		count += behind
	}
	return count
}

// crossings counts the crossings between all layers. It stops counting when there are enough.
func (k *sketch) crossings(enough int) int {
	count := 0
	var tree []int32
	for at := 0; at+1 < len(k.layers) && count < enough; at++ {
		width := len(k.layers[at+1])
		tree = slices.Grow(tree[:0], width+1)[:width+1]
		clear(tree)
		seen := 0
		for _, v := range k.layers[at] {
			downs := k.downs[v]
			for _, w := range downs {
				notBehind := 0 // how many of the lines before end at this place or before it
				for i := k.vertices[w].place + 1; i > 0; i &= i - 1 {
					notBehind += int(tree[i])
				}
				count += seen - notBehind
			}
			for _, w := range downs {
				for i := k.vertices[w].place + 1; i < len(tree); i += i & -i {
					tree[i]++
				}
			}
			seen += len(downs)
		}
	}
	return count
}
