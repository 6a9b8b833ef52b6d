package layout

import (
	"cmp"
	"math"
	"slices"
)

// routing finds the way of the lines of a sketch whose vertices have their places across.
type routing struct {
	*sketch
	s     *settings
	wires []wire
	// channels are the numbers of the wires between each layer and the next one.
	channels [][]int
	// start, depth and trackGap have for each layer, along: where it begins, how deep it is, and the distance of the
	// lines in the channel after it.
	start, depth, trackGap []float64
	bottom                 float64 // of all vertices, across
	free                   []Point // its spare capacity is for the points of further lines
}

// wire is the part of a net in one channel: it leads from one place of the layer before the channel to several of the
// layer after it, by one line across.
type wire struct {
	start     float64
	low, high float64 // of start and all ends
	track     int     // of its line across, from 0; -1 if it is straight
}

// railGap is the distance of the lowest vertex and the first line below the drawing; railTracks is how many different
// lines are there.
const (
	railGap    = 24
	railTracks = 8
)

func newRouting(k *sketch, s *settings) *routing {
	r := &routing{sketch: k, s: s}
	for v := range k.vertices {
		r.bottom = max(r.bottom, k.vertices[v].center+k.vertices[v].size/2)
	}
	r.ports()
	r.follow()
	r.connect()
	var a trackAssigner
	for _, channel := range r.channels {
		a.assign(r.wires, channel)
	}
	r.columns()
	return r
}

// rail is where the lines of a net pass below the drawing.
func (r *routing) rail(net int) float64 {
	return r.bottom + railGap + trackGap*float64(net%railTracks)
}

// entry is where a net enters the channel before a target.
func (r *routing) entry(net int, t *target) float64 {
	if left := r.left(&r.nets[net], t); left >= 0 {
		return r.vertices[left].center
	}
	return r.rail(net)
}

// ports gives the lines that lead to an item their ends at its border, in the order in which they come.
func (r *routing) ports() {
	type incoming struct {
		net, target int
		from        float64
	}
	counts, total := make([]int, len(r.level.items)), 0
	for i := range r.level.items {
		counts[i] = len(r.level.items[i].ups)
		total += counts[i]
	}
	all := partition[incoming](counts, total)
	for i := range r.nets {
		for j := range r.nets[i].targets {
			t := &r.nets[i].targets[j]
			all[t.vertex] = append(all[t.vertex], incoming{i, j, r.entry(i, t)})
		}
	}
	for v, list := range all {
		slices.SortStableFunc(list, func(a, b incoming) int { return cmp.Compare(a.from, b.from) })
		center := r.vertices[v].center
		straight := slices.IndexFunc(list, func(in incoming) bool { return math.Abs(in.from-center) < 0.5 })
		gap := float64(portGap)
		if r.s.direction == Right && r.level.items[v].labels() > 0 {
			gap = labelledGap
		}
		slots := max(0, int((r.vertices[v].size-2*portInset)/gap)) + 1
		for i, in := range list {
			r.nets[in.net].targets[in.target].port = center + gap*slot(i, len(list), slots, straight)
		}
	}
}

// slot returns the place of the i-th of count lines among slots, as the distance from the middle. A line that comes
// straight to the middle stays there, unless others had to share a slot for that.
func slot(i, count, slots, straight int) float64 {
	half := (slots - 1) / 2
	if straight < 0 || count <= slots && max(straight, count-1-straight) > half {
		if count > slots {
			i, count = i*slots/count, slots
		}
		return float64(i) - float64(count-1)/2
	}
	side, most, sign := i-straight, count-1-straight, 1.0
	if side < 0 {
		side, most, sign = -side, straight, -1
	}
	if most > half {
		side = (side*half + most - 1) / max(most, 1)
	}
	return sign * float64(side)
}

// connect makes the wires of all nets.
func (r *routing) connect() {
	r.channels = make([][]int, max(0, len(r.layers)-1))
	r.wires = make([]wire, 0, len(r.vertices))
	for i := range r.nets {
		n := &r.nets[i]
		first := r.vertices[n.from].layer
		n.wires = make([]int, n.reach)
		for g := range n.wires {
			n.wires[g] = -1
		}
		for g, bend := range n.bends {
			from := n.from
			if g > 0 {
				from = n.bends[g-1]
			}
			r.wire(n, g, r.vertices[from].center, r.vertices[bend].center)
		}
		for j := range n.targets {
			t := &n.targets[j]
			g := r.vertices[t.vertex].layer - first - 1
			r.wire(n, g, r.entry(i, t), t.port)
			if g > 0 && n.rail {
				r.wire(n, 0, r.vertices[n.from].center, r.rail(i))
			}
		}
	}
}

// wire adds an end to the wire of a net in its g-th channel.
func (r *routing) wire(n *net, g int, start, end float64) {
	if n.wires[g] < 0 {
		n.wires[g] = len(r.wires)
		channel := r.vertices[n.from].layer + g
		r.channels[channel] = append(r.channels[channel], len(r.wires))
		r.wires = append(r.wires, wire{start: start, low: start, high: start, track: -1})
	}
	w := &r.wires[n.wires[g]]
	w.low, w.high = min(w.low, end), max(w.high, end)
}

// turn is where a wire leads to: down, both ways, or up.
func (w *wire) turn() int {
	switch {
	case w.low == w.start:
		return 0
	case w.high == w.start:
		return 2
	}
	return 1
}

// turning is a wire that is not straight, with the values that its track depends on.
type turning struct {
	*wire
	turns, number int // its number decides between wires that are alike
	first, second float64
}

func (w *wire) turning(number int) turning {
	t := turning{wire: w, turns: w.turn(), number: number, first: w.start, second: w.low}
	if t.turns == 0 {
		t.first, t.second = -w.start, -w.high
	}
	return t
}

func compareTurning(a, b turning) int {
	switch {
	case a.turns != b.turns:
		return a.turns - b.turns
	case a.first != b.first:
		return cmp.Compare(a.first, b.first)
	case a.second != b.second:
		return cmp.Compare(a.second, b.second)
	}
	return a.number - b.number
}

// trackAssigner gives the wires of channels their tracks, one channel after the other, in the same space.
type trackAssigner struct {
	all    []turning
	places []float64
	ruler  ruler
	used   trackTree
}

// assign gives each wire of a channel that is not straight a track, so that wires that overlap have different
// ones. The order of the tracks makes no crossing that the order of the ends does not: of two wires that lead down, the
// upper one turns later; of two that lead up, the lower one.
func (a *trackAssigner) assign(wires []wire, channel []int) {
	a.all, a.places = a.all[:0], a.places[:0]
	for _, i := range channel {
		if w := &wires[i]; w.low < w.high {
			a.all = append(a.all, w.turning(len(a.all)))
			a.places = append(a.places, w.low, w.high)
		}
	}
	if len(a.all) == 0 {
		return
	}
	slices.Sort(a.places)
	a.places = slices.Compact(a.places)
	slices.SortFunc(a.all, compareTurning)
	a.ruler.measure(a.places)
	a.used.reset(len(a.places))
	for _, t := range a.all {
		w := t.wire
		// Ends nearer than a few pixels look like one line.
		low, high := a.ruler.first(w.low-labelHeight/2), a.ruler.first(w.high+labelHeight/2)
		if high == len(a.places) || a.places[high] != w.high+labelHeight/2 {
			high--
		}
		w.track = a.used.next(low, high)
		a.used.take(a.ruler.first(w.low), a.ruler.first(w.high), w.track)
	}
}

// maxChannel bounds the width of the lines in a channel; more lines are drawn closer together.
const maxChannel = 180.0

// columns computes where the layers begin.
func (r *routing) columns() {
	count := len(r.layers)
	r.start, r.depth, r.trackGap = make([]float64, count), make([]float64, count), make([]float64, count)
	at := 0.0
	for layer, vertices := range r.layers {
		if layer > 0 {
			at += r.channelWidth(layer-1) + r.labelRoom(layer)
		}
		r.start[layer] = at
		for _, v := range vertices {
			if !r.bend(v) {
				r.depth[layer] = max(r.depth[layer], r.s.along(&r.level.items[v].box))
			}
		}
		at += r.depth[layer]
	}
}

func (r *routing) channelWidth(channel int) float64 {
	tracks := 0
	for _, i := range r.channels[channel] {
		tracks = max(tracks, r.wires[i].track+1)
	}
	if tracks < 2 {
		return nodeGap
	}
	r.trackGap[channel] = min(trackGap, maxChannel/float64(tracks-1))
	return math.Ceil(leadOut + float64(tracks-1)*r.trackGap[channel] + leadIn)
}

// labelRoom is the space before a layer for the labels of the lines that lead there.
func (r *routing) labelRoom(layer int) float64 {
	room := 0.0
	for _, v := range r.layers[layer] {
		if r.bend(v) {
			continue
		}
		it := &r.level.items[v]
		if r.s.direction == Down {
			room = max(room, float64(it.labels()*labelHeight))
			continue
		}
		for i := range it.ups {
			if label := it.ups[i].edge.label(); label != "" {
				room = max(room, labelWidth(label))
			}
		}
	}
	return room
}

// across is the place of the line across of a wire, along.
func (r *routing) across(channel int, w *wire) float64 {
	return r.start[channel] + r.depth[channel] + leadOut + float64(w.track)*r.trackGap[channel]
}
