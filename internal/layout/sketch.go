package layout

import "slices"

// The space between the parts of a drawing, in pixels. Sums of them and of the sizes of nodes are whole numbers.
const (
	margin      = 12
	nodeGap     = 32 // between two nodes, along and across
	bendGap     = 12 // between two lines that pass through a layer
	passGap     = 16 // between a node and a line that passes through its layer
	trackGap    = 6  // between lines in the channel between two layers
	portGap     = 8  // between the ends of lines at a node
	labelledGap = 14 // the same for lines with labels
	portInset   = 7  // between a corner of a node and the first end of a line
	leadOut     = 18 // from a node to the first line in a channel
	leadIn      = 14 // from the last line in a channel to a node
	groupInset  = 16
	groupHead   = 34 // with the name of an open node
)

// sketch is a level while it is laid out. It knows two axes only: along the edges and across them.
type sketch struct {
	level    *level
	vertices []vertex
	// layers are the vertices of each layer in their order across.
	layers [][]int
	nets   []net
	// places are the places of the vertices in their layers. They and the neighbours are read far more often than
	// anything else, so they are kept small and apart.
	places []int32
	// ups and downs are the neighbours of each vertex in the layers beside its own.
	ups, downs [][]int32
}

// vertex stands in a layer: one for each item, and bends where long lines pass through a layer.
type vertex struct {
	layer  int
	item   int // -1 for bends
	rank   int // of its declaration; bends have that of their net's source
	size   float64
	center float64 // across
}

// net is all lines from one vertex for one outcome. They share their way.
type net struct {
	from    int
	edge    Edge
	targets []target
	// reach is how many layers the farthest target is behind the source.
	reach int
	// bends are its vertices in the layers behind that of from, as far as lines pass through them.
	bends []int
	// rail makes lines over more than one layer pass below the drawing, instead of by bends.
	rail bool
	// wires are the numbers of its wires in the channels behind the layer of from; -1 where there is none.
	wires []int
}

// target is one end of a net.
type target struct {
	vertex int
	link   int     // in the item of the vertex
	port   float64 // where it ends, across
}

// bend reports whether v is no item.
func (k *sketch) bend(v int) bool { return k.vertices[v].item < 0 }

func newSketch(l *level, across func(*Box) float64) *sketch {
	k := &sketch{level: l, vertices: make([]vertex, 0, len(l.items))}
	for i, layer := range l.layers() {
		k.vertices = append(k.vertices, vertex{layer: layer, item: i, rank: i, size: across(&l.items[i].box)})
	}
	k.connect()
	k.bends()
	last := 0
	for i := range k.vertices {
		last = max(last, k.vertices[i].layer)
	}
	counts := make([]int, last+1)
	for i := range k.vertices {
		counts[k.vertices[i].layer]++
	}
	k.places = make([]int32, len(k.vertices))
	k.layers = partition[int](counts, len(k.vertices))
	for _, v := range k.byRank() {
		layer := k.vertices[v].layer
		k.layers[layer] = append(k.layers[layer], v)
	}
	k.connectLayers()
	k.number()
	return k
}

// byRank returns the vertices in the order of their ranks.
func (k *sketch) byRank() []int {
	from := make([]int, len(k.level.items)+1) // where the vertices of a rank begin
	for i := range k.vertices {
		from[k.vertices[i].rank+1]++
	}
	for rank := range k.level.items {
		from[rank+1] += from[rank]
	}
	sorted := make([]int, len(k.vertices))
	for v := range k.vertices {
		rank := k.vertices[v].rank
		sorted[from[rank]] = v
		from[rank]++
	}
	return sorted
}

// layers returns for each item the length of the longest path that leads to it.
func (l *level) layers() []int {
	layer := make([]int, len(l.items))
	done := make([]bool, len(l.items))
	var stack []int
	for i := range l.items {
		stack = append(stack, i)
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			ready := true
			for _, up := range l.items[at].ups {
				if !done[up.from] {
					stack = append(stack, up.from)
					ready = false
					continue
				}
				layer[at] = max(layer[at], layer[up.from]+1)
			}
			if ready {
				done[at] = true
				stack = stack[:len(stack)-1]
			}
		}
	}
	return layer
}

// connect makes the nets.
func (k *sketch) connect() {
	k.nets = make([]net, 0, len(k.level.items))
	netOf, counts := k.netsOfLinks()
	targets := partition[target](counts, len(netOf))
	for i := range k.nets {
		k.nets[i].targets = targets[i]
	}
	for to := range k.level.items {
		for i := range k.level.items[to].ups {
			n := &k.nets[netOf[0]]
			netOf = netOf[1:]
			n.targets = append(n.targets, target{vertex: to, link: i})
		}
	}
}

// netsOfLinks makes the nets, without targets. It returns the net of each link, and how many links each net has.
func (k *sketch) netsOfLinks() (netOf, counts []int) {
	first := make([]int, len(k.level.items)) // of the nets of an item; one more than its number, 0 for none
	var next []int                           // the same for the net of the item behind each net
	for to := range k.level.items {
		for i := range k.level.items[to].ups {
			up := &k.level.items[to].ups[i]
			at := first[up.from]
			for at > 0 && (k.nets[at-1].edge.Kind != up.edge.Kind || k.nets[at-1].edge.Case != up.edge.Case) {
				at = next[at-1]
			}
			if at == 0 {
				k.nets = append(k.nets, net{from: up.from, edge: up.edge})
				next, counts = append(next, first[up.from]), append(counts, 0)
				at = len(k.nets)
				first[up.from] = at
			}
			counts[at-1]++
			netOf = append(netOf, at-1)
		}
	}
	return netOf, counts
}

// maxBends bounds the vertices for long lines: beyond it the longest ones pass below the drawing. The bound keeps the
// time of the layout within that of its nodes and edges.
func (k *sketch) maxBends() int { return 3_000 + 3*len(k.level.items) }

// bends adds the vertices where lines pass through layers.
func (k *sketch) bends() {
	total := 0
	for i := range k.nets {
		n := &k.nets[i]
		n.reach = 1
		for _, t := range n.targets {
			n.reach = max(n.reach, k.vertices[t.vertex].layer-k.vertices[n.from].layer)
		}
		total += n.reach - 1
	}
	total = k.rails(total)
	k.vertices = slices.Grow(k.vertices, total)
	bends := make([]int, 0, total)
	for i := range k.nets {
		n := &k.nets[i]
		from := len(bends)
		first := k.vertices[n.from].layer + 1
		for layer := first; !n.rail && layer < first+n.reach-1; layer++ {
			bends = append(bends, len(k.vertices))
			k.vertices = append(k.vertices, vertex{layer: layer, item: -1, rank: n.from})
		}
		n.bends = bends[from:len(bends):len(bends)]
	}
}

// rails takes the longest nets below the drawing while there are too many bends. It returns how many are left of total.
func (k *sketch) rails(total int) int {
	if total <= k.maxBends() {
		return total
	}
	byLength := make([]int, len(k.nets))
	for i := range byLength {
		byLength[i] = i
	}
	slices.SortStableFunc(byLength, func(a, b int) int { return k.nets[b].reach - k.nets[a].reach })
	for _, i := range byLength {
		if total <= k.maxBends() {
			break
		}
		k.nets[i].rail = true
		total -= k.nets[i].reach - 1
	}
	return total
}

// left returns the vertex of a net in the layer before that of a target; -1 when it passes below the drawing.
func (k *sketch) left(n *net, t *target) int {
	length := k.vertices[t.vertex].layer - k.vertices[n.from].layer
	switch {
	case length == 1:
		return n.from
	case n.rail:
		return -1
	}
	return n.bends[length-2]
}

// connectLayers fills ups and downs.
func (k *sketch) connectLayers() {
	upCount, downCount := make([]int, len(k.vertices)), make([]int, len(k.vertices))
	total := 0
	k.eachStep(func(a, b int) {
		downCount[a]++
		upCount[b]++
		total++
	})
	k.ups, k.downs = partition[int32](upCount, total), partition[int32](downCount, total)
	k.eachStep(func(a, b int) {
		k.downs[a], k.ups[b] = append(k.downs[a], int32(b)), append(k.ups[b], int32(a))
	})
}

// partition returns empty slices with room for so many elements, in one array.
func partition[T any](counts []int, total int) [][]T {
	all := make([]T, total)
	parts := make([][]T, len(counts))
	for i, count := range counts {
		parts[i], all = all[:0:count], all[count:]
	}
	return parts
}

// eachStep calls f with the ends of each line between two layers.
func (k *sketch) eachStep(f func(a, b int)) {
	for i := range k.nets {
		n := &k.nets[i]
		from := n.from
		for _, bend := range n.bends {
			f(from, bend)
			from = bend
		}
		for j := range n.targets {
			if left := k.left(n, &n.targets[j]); left >= 0 {
				f(left, n.targets[j].vertex)
			}
		}
	}
}

// number writes the places in the layers into the vertices.
func (k *sketch) number() {
	for _, layer := range k.layers {
		for place, v := range layer {
			k.places[v] = int32(place)
		}
	}
}
