package layout

import "math"

// placed returns what the routing has found.
func (r *routing) placed() *placed {
	count := 0
	for i := range r.level.items {
		count += len(r.level.items[i].ups)
	}
	p := &placed{boxes: make([]Box, 0, len(r.level.items)), lines: make([]Line, 0, count)}
	for layer, vertices := range r.layers {
		for _, v := range vertices {
			if !r.bend(v) {
				r.box(p, layer, v)
			}
		}
	}
	last := len(r.layers) - 1
	p.w, p.h = r.start[last]+r.depth[last], r.bottom
	r.lines(p)
	for i := range r.nets {
		if r.nets[i].rail {
			p.h = max(p.h, r.rail(i))
		}
	}
	return p
}

// box places the item of a vertex, and what is drawn inside it.
func (r *routing) box(p *placed, layer, v int) {
	it := &r.level.items[v]
	b := it.box
	along, across := r.s.along(&b), r.s.across(&b)
	b.Layer = layer
	b.X, b.Y, b.W, b.H = r.start[layer], r.vertices[v].center-across/2, along, across
	if it.inner == nil {
		p.boxes = append(p.boxes, b)
		return
	}
	p.groups = append(p.groups, Group{
		ID: b.ID, Name: b.Name, Kind: b.Kind, Text: b.Text, Join: b.Join, Group: b.Group, Layer: layer,
		X: b.X, Y: b.Y, W: b.W, H: b.H,
	})
	if r.s.direction == Down {
		it.inner.move(b.X+groupHead, b.Y+groupInset)
	} else {
		it.inner.move(b.X+groupInset, b.Y+groupHead)
	}
	p.boxes = append(p.boxes, it.inner.boxes...)
	p.lines = append(p.lines, it.inner.lines...)
	p.groups = append(p.groups, it.inner.groups...)
}

// lines adds the lines between the items, by their targets.
func (r *routing) lines(p *placed) {
	at := make([]int, len(r.level.items)) // number of the first line of each item
	for i := range r.level.items {
		it := &r.level.items[i]
		at[i] = len(p.lines)
		for _, up := range it.ups {
			p.lines = append(p.lines, Line{
				From: r.level.items[up.from].box.ID, To: it.box.ID,
				Kind: up.edge.Kind, Case: up.edge.Case, Data: up.edge.Data, Count: up.count,
			})
		}
	}
	for i := range r.nets {
		for j := range r.nets[i].targets {
			t := &r.nets[i].targets[j]
			p.lines[at[t.vertex]+t.link].Points = r.points(i, t)
		}
	}
	for i := range r.level.items {
		r.label(&r.level.items[i], p.lines[at[i]:at[i]+len(r.level.items[i].ups)])
	}
}

// points returns the way of a line.
func (r *routing) points(net int, t *target) []Point {
	n := &r.nets[net]
	source := &r.vertices[n.from]
	y := source.center
	length := r.vertices[t.vertex].layer - source.layer
	if most := 2 + 2*length; cap(r.free)-len(r.free) < most {
		r.free = make([]Point, 0, max(most, pointsAtOnce))
	}
	begin := len(r.free)
	points := append(r.free, Point{r.start[source.layer] + r.s.along(&r.level.items[source.item].box), y})
	for g := range length {
		if n.rail && g > 0 && g < length-1 {
			continue
		}
		next := t.port
		switch {
		case g == length-1:
		case n.rail:
			next = r.rail(net)
		default:
			next = r.vertices[n.bends[g]].center
		}
		if math.Abs(next-y) > 0.01 {
			x := r.across(source.layer+g, &r.wires[n.wires[g]])
			points = append(points, Point{x, y}, Point{x, next})
			y = next
		}
	}
	r.free = append(points, Point{r.start[r.vertices[t.vertex].layer], y})
	return r.free[begin:len(r.free):len(r.free)]
}

// pointsAtOnce is for how many points there is space at a time.
const pointsAtOnce = 1024

// label puts labels to the ends of the lines to an item, each different one once.
func (r *routing) label(it *item, lines []Line) {
	seen := make(map[string]bool)
	for i := range lines {
		label := it.ups[i].edge.label()
		if label == "" || seen[label] {
			continue
		}
		end := lines[i].Points[len(lines[i].Points)-1]
		at := Point{end.X - leadIn - labelWidth(label)/2, end.Y}
		if r.s.direction == Down {
			at.X = end.X - leadIn - labelHeight*float64(len(seen)) - labelHeight/2
		}
		seen[label] = true
		lines[i].Label, lines[i].LabelAt = label, &at
	}
}
