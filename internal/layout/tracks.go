package layout

import "slices"

// ruler finds places across by their numbers among those of a channel.
type ruler struct {
	places []float64 // in their order, each once
	// cells are, for each stretch of cellSize pixels, the number of the first place in it or behind it.
	cells []int32
}

const cellSize = 8

// measure takes the places, which are sorted.
func (r *ruler) measure(places []float64) {
	r.places, r.cells = places, r.cells[:0]
	for i, at := range places {
		for float64(len(r.cells))*cellSize+places[0] <= at {
			r.cells = append(r.cells, int32(i))
		}
	}
}

// first returns the number of the first place that is not before at; that of all places if there is none.
func (r *ruler) first(at float64) int {
	if at <= r.places[0] {
		return 0
	}
	cell := int((at - r.places[0]) / cellSize)
	if cell >= len(r.cells) {
		return len(r.places)
	}
	i := int(r.cells[cell])
	for i < len(r.places) && r.places[i] < at {
		i++
	}
	return i
}

// trackTree holds for each place across the highest track that a wire uses there.
type trackTree struct {
	size int
	// highest is of all places below a node of the tree, whole of what covers all of them.
	highest, whole []int32
}

// reset makes the tree one of so many places, without tracks.
func (t *trackTree) reset(places int) {
	t.size = 1
	for t.size < places {
		t.size *= 2
	}
	t.highest = slices.Grow(t.highest[:0], 2*t.size)[:2*t.size]
	t.whole = slices.Grow(t.whole[:0], 2*t.size)[:2*t.size]
	for i := range t.highest {
		t.highest[i], t.whole[i] = -1, -1
	}
}

// next returns the first track behind all that are used between two places.
func (t *trackTree) next(low, high int) int {
	return int(t.query(1, 0, t.size-1, low, high)) + 1
}

func (t *trackTree) query(at, from, to, low, high int) int32 {
	if high < from || to < low {
		return -1
	}
	if low <= from && to <= high {
		return t.highest[at]
	}
	middle := (from + to) / 2
	return max(t.whole[at], t.query(2*at, from, middle, low, high), t.query(2*at+1, middle+1, to, low, high))
}

// take uses a track between two places.
func (t *trackTree) take(low, high, track int) { t.update(1, 0, t.size-1, low, high, int32(track)) }

func (t *trackTree) update(at, from, to, low, high int, track int32) {
	if high < from || to < low {
		return
	}
	t.highest[at] = max(t.highest[at], track)
	if low <= from && to <= high {
		t.whole[at] = max(t.whole[at], track)
		return
	}
	middle := (from + to) / 2
	t.update(2*at, from, middle, low, high, track)
	t.update(2*at+1, middle+1, to, low, high, track)
}
