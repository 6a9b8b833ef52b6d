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
		} else if i%2 == 0 {
			continue // of large graphs, the crossings are counted after each sweep back
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
	keys, spare []uint64
	from        []int32 // where the keys of each whole mean place begin
	before      []int
}

// sweep sorts each layer by the mean place of the neighbours in the layer before, or in the next one. Vertices with the
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
					sum += int(k.places[w])
				}
				mean = uint64(sum) << fractionBits / uint64(len(near[v]))
			}
			k.keys = append(k.keys, mean<<placeBits|uint64(place))
		}
		if slices.IsSorted(k.keys) {
			continue
		}
		k.sort()
		k.before = append(k.before[:0], layer...)
		for place, key := range k.keys {
			v := k.before[key&(1<<placeBits-1)]
			layer[place], k.places[v] = v, int32(place)
		}
	}
}

// sort sorts the keys. Places are whole numbers up to the size of a layer, so few keys have the same one.
func (k *sweeper) sort() {
	most := 0
	for _, key := range k.keys {
		most = max(most, int(key>>(fractionBits+placeBits)))
	}
	k.from = slices.Grow(k.from[:0], most+2)[:most+2]
	clear(k.from)
	for _, key := range k.keys {
		k.from[key>>(fractionBits+placeBits)+1]++
	}
	for i := range most + 1 {
		k.from[i+1] += k.from[i]
	}
	k.spare = slices.Grow(k.spare[:0], len(k.keys))[:len(k.keys)]
	for _, key := range k.keys {
		at := &k.from[key>>(fractionBits+placeBits)]
		k.spare[*at] = key
		*at++
	}
	begin := int32(0)
	for _, end := range k.from[:most+1] { // now the index at which the keys of the next place begin
		slices.Sort(k.spare[begin:end])
		begin = end
	}
	k.keys, k.spare = k.spare, k.keys
}

// transpose exchanges adjacent vertices where that removes crossings.
func (k *sketch) transpose() {
	byPlace := func(a, b int32) int { return int(k.places[a] - k.places[b]) }
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
					k.places[a], k.places[b] = int32(i), int32(i-1)
					changed = true
				}
			}
		}
		if !changed {
			return
		}
	}
}

// pairCrossings counts the crossings of the lines of two vertices, the first of which is before the second. The
// neighbours are in the order of their places.
func (k *sketch) pairCrossings(first, second []int32) int {
	count, behind := 0, 0
	for _, w := range first {
		for behind < len(second) && k.places[second[behind]] < k.places[w] {
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
				notAfter := int32(0) // how many of the lines before end at this place or before it
				for i := k.places[w] + 1; i > 0; i &= i - 1 {
					notAfter += tree[i]
				}
				count += seen - int(notAfter)
			}
			for _, w := range downs {
				for i := k.places[w] + 1; int(i) < len(tree); i += i & -i {
					tree[i]++
				}
			}
			seen += len(downs)
		}
	}
	return count
}
