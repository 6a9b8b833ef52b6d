package layout

// trackTree holds for each place across the highest track that a wire uses there.
type trackTree struct {
	size int
	// highest is of all places below a node of the tree, whole of what covers all of them.
	highest, whole []int
}

func newTrackTree(places int) *trackTree {
	size := 1
	for size < places {
		size *= 2
	}
	t := &trackTree{size: size, highest: make([]int, 2*size), whole: make([]int, 2*size)}
	for i := range t.highest {
		t.highest[i], t.whole[i] = -1, -1
	}
	return t
}

// next returns the first track behind all that are used between two places.
func (t *trackTree) next(low, high int) int {
	return t.query(1, 0, t.size-1, low, high) + 1
}

func (t *trackTree) query(at, from, to, low, high int) int {
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
func (t *trackTree) take(low, high, track int) { t.update(1, 0, t.size-1, low, high, track) }

func (t *trackTree) update(at, from, to, low, high, track int) {
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
