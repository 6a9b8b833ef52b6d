package layout

import "slices"

// order puts the vertices of each layer into an order with few crossings. It never has more than the order before.
func (k *sketch) order() {
	size := len(k.vertices)
	for i := range k.ups {
		size += len(k.ups[i])
	}
	// Both bounds limit work, not time, so that equal graphs have equal orders on every machine.
	sweeps := min(24, max(4, 150_000/max(size, 1)))
	best := k.crossings()
	kept := cloneLayers(k.layers)
	unchanged := 0
	for i := 0; i < sweeps && best > 0 && unchanged < 4; i++ {
		k.sweep(i%2 == 0)
		unchanged++
		if size <= 8_000 {
			k.transpose()
		}
		if count := k.crossings(); count < best {
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

// sweep sorts each layer by the mean place of the neighbours in the layer before, or the one behind.
func (k *sketch) sweep(forward bool) {
	type keyed struct {
		key    float64
		vertex int
	}
	var sorted []keyed
	for step := range k.layers {
		at, near := step, k.ups
		if !forward {
			at, near = len(k.layers)-1-step, k.downs
		}
		layer := k.layers[at]
		sorted = sorted[:0]
		for place, v := range layer {
			key := float64(place)
			if len(near[v]) > 0 {
				sum := 0
				for _, w := range near[v] {
					sum += k.vertices[w].place
				}
				key = float64(sum) / float64(len(near[v]))
			}
			sorted = append(sorted, keyed{key, v})
		}
		slices.SortFunc(sorted, func(a, b keyed) int {
			switch {
			case a.key < b.key:
				return -1
			case a.key > b.key:
				return 1
			}
			return k.vertices[a.vertex].place - k.vertices[b.vertex].place
		})
		for place := range sorted {
			layer[place] = sorted[place].vertex
		}
		for place, v := range layer {
			k.vertices[v].place = place
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

// crossings counts the crossings between all layers.
func (k *sketch) crossings() int {
	count := 0
	var tree, ends []int
	for at := 0; at+1 < len(k.layers); at++ {
		tree = append(tree[:0], make([]int, len(k.layers[at+1])+1)...)
		seen := 0
		for _, v := range k.layers[at] {
			ends = ends[:0]
			for _, w := range k.downs[v] {
				ends = append(ends, k.vertices[w].place)
			}
			for _, end := range ends {
				notBehind := 0 // how many of the lines before end at this place or before it
				for i := end + 1; i > 0; i &= i - 1 {
					notBehind += tree[i]
				}
				count += seen - notBehind
			}
			for _, end := range ends {
				for i := end + 1; i < len(tree); i += i & -i {
					tree[i]++
				}
			}
			seen += len(ends)
		}
	}
	return count
}
