package layout

import (
	"math"
	"slices"
)

// maxNudge is how far straighten moves a vertex, in pixels. More would spoil what align has balanced.
const maxNudge = 24.0

// straighten moves vertices a little where that makes more of their lines straight.
func (k *sketch) straighten() {
	for range 2 {
		for _, layer := range k.layers {
			for place := range layer {
				k.nudge(layer, place)
			}
		}
	}
}

func (k *sketch) nudge(layer []int, place int) {
	v := layer[place]
	if len(k.ups[v])+len(k.downs[v]) > 8 {
		return
	}
	low, high := k.freedom(layer, place)
	best, at := k.straight(v, k.vertices[v].center), k.vertices[v].center
	for _, near := range [2][]int32{k.ups[v], k.downs[v]} {
		for _, w := range near {
			center := k.vertices[w].center
			if center < low || center > high || math.Abs(center-k.vertices[v].center) > maxNudge {
				continue
			}
			if count := k.straight(v, center); count > best {
				best, at = count, center
			}
		}
	}
	k.vertices[v].center = at
}

// freedom returns between which places a vertex can be without coming too near to those beside it.
func (k *sketch) freedom(layer []int, place int) (low, high float64) {
	v := layer[place]
	low, high = k.vertices[v].size/2, math.Inf(1)
	if place > 0 {
		low = k.vertices[layer[place-1]].center + k.apart(layer[place-1], v)
	}
	if place+1 < len(layer) {
		high = k.vertices[layer[place+1]].center - k.apart(v, layer[place+1])
	}
	return low, high
}

// straight counts the neighbours of v with the same center.
func (k *sketch) straight(v int, center float64) int {
	count := 0
	for _, near := range [2][]int32{k.ups[v], k.downs[v]} {
		for _, w := range near {
			if math.Abs(k.vertices[w].center-center) < 0.01 {
				count++
			}
		}
	}
	return count
}

// follow moves the bends before the end of a line to the place of that end, as far as there is room, so that the line
// comes in straight.
func (r *routing) follow() {
	for i := range r.nets {
		n := &r.nets[i]
		if len(n.bends) == 0 {
			continue
		}
		last := n.bends[len(n.bends)-1]
		if len(r.downs[last]) != 1 {
			continue
		}
		at := slices.IndexFunc(n.targets, func(t target) bool { return t.vertex == int(r.downs[last][0]) })
		port, center := n.targets[at].port, r.vertices[last].center
		if port == center || math.Abs(port-center) > maxNudge {
			continue
		}
		for _, bend := range slices.Backward(n.bends) {
			v := &r.vertices[bend]
			low, high := r.freedom(r.layers[v.layer], int(r.places[bend]))
			if v.center != center || port < low-passGap/2 || port > high+passGap/2 || len(r.downs[bend]) != 1 {
				break
			}
			v.center = port
		}
	}
}
