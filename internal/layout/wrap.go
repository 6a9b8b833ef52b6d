package layout

import (
	"math"
	"slices"
)

// Space around the lines from one row of a wrapped drawing to the next one.
const (
	rowLead = 10 // from nodes to the first of the lines
	rowGap  = 12 // from the last of the lines to the next row
)

// row is a part of a wrapped drawing: some layers, from left to right.
type row struct {
	from, to    float64 // along, before it is wrapped
	top, bottom float64 // across, before it is wrapped
	dx, dy      float64 // how far it moves
	crossing    []float64
}

// wrap breaks a drawing that is deeper than the width into rows, one below the other, at the borders of layers.
func (p *placed) wrap(width float64) {
	cuts := p.cuts(width)
	if len(cuts) == 0 {
		return
	}
	rows := make([]row, len(cuts)+1)
	for i := range rows {
		rows[i] = row{from: math.Inf(-1), to: math.Inf(1), top: math.Inf(1), bottom: math.Inf(-1)}
		if i > 0 {
			rows[i].from = cuts[i-1]
		}
		if i < len(cuts) {
			rows[i].to = cuts[i]
		}
	}
	parts := make([][][]Point, len(p.lines)) // of each line, in its rows
	for i := range p.lines {
		parts[i] = p.measure(rows, p.lines[i].Points)
	}
	for i := range p.boxes {
		rows[rowAt(rows, p.boxes[i].X)].include(p.boxes[i].Y, p.boxes[i].Y+p.boxes[i].H)
	}
	for i := range p.groups {
		rows[rowAt(rows, p.groups[i].X)].include(p.groups[i].Y, p.groups[i].Y+p.groups[i].H)
	}
	p.stack(rows)
	for i := range p.lines {
		l := &p.lines[i]
		first := rowAt(rows, l.Points[0].X)
		l.Points = joined(rows, first, parts[i])
		if at := l.LabelAt; at != nil {
			r := &rows[rowAt(rows, at.X)]
			at.X, at.Y = at.X+r.dx, at.Y+r.dy
		}
	}
	for i := range p.boxes {
		r := &rows[rowAt(rows, p.boxes[i].X)]
		p.boxes[i].X, p.boxes[i].Y = p.boxes[i].X+r.dx, p.boxes[i].Y+r.dy
	}
	for i := range p.groups {
		r := &rows[rowAt(rows, p.groups[i].X)]
		p.groups[i].X, p.groups[i].Y = p.groups[i].X+r.dx, p.groups[i].Y+r.dy
	}
}

// cuts returns where the rows end, along: where every line that passes leads straight to a node of the next layer.
func (p *placed) cuts(width float64) []float64 {
	var starts, ends []float64 // of the layers of the flow itself
	at := func(layer int, from, to float64) {
		for len(starts) <= layer {
			starts, ends = append(starts, math.Inf(1)), append(ends, math.Inf(-1))
		}
		starts[layer], ends[layer] = min(starts[layer], from), max(ends[layer], to)
	}
	for i := range p.boxes {
		if b := &p.boxes[i]; b.Group == "" {
			at(b.Layer, b.X, b.X+b.W)
		}
	}
	for i := range p.groups {
		if g := &p.groups[i]; g.Group == "" {
			at(g.Layer, g.X, g.X+g.W)
		}
	}
	labels := make(map[float64]float64) // where the labels before a layer begin, by where it does
	for i := range p.lines {
		if l := &p.lines[i]; l.LabelAt != nil {
			end, from := l.Points[len(l.Points)-1].X, l.LabelAt.X-labelWidth(l.Label)/2+1
			if known, there := labels[end]; !there || from < known {
				labels[end] = from
			}
		}
	}
	var cuts []float64
	begin := 0.0
	for layer := 1; layer < len(starts); layer++ {
		if math.IsInf(starts[layer], 1) || ends[layer]-begin <= width {
			continue
		}
		cut := starts[layer] - leadIn/2
		if from, there := labels[starts[layer]]; there {
			cut = min(cut, from)
		}
		if cut > begin {
			cuts, begin = append(cuts, cut), cut
		}
	}
	return cuts
}

// rowAt returns the row that a place along is in.
func rowAt(rows []row, x float64) int {
	for i := range rows {
		if x < rows[i].to {
			return i
		}
	}
	return len(rows) - 1
}

func (r *row) include(top, bottom float64) { r.top, r.bottom = min(r.top, top), max(r.bottom, bottom) }

// measure splits a line at the ends of rows, and notes where it passes them.
func (p *placed) measure(rows []row, points []Point) [][]Point {
	at := rowAt(rows, points[0].X)
	parts := [][]Point{{points[0]}}
	rows[at].include(points[0].Y, points[0].Y)
	for _, next := range points[1:] {
		for ; next.X > rows[at].to; at++ {
			pass := Point{rows[at].to, next.Y}
			parts[len(parts)-1] = append(parts[len(parts)-1], pass)
			parts = append(parts, []Point{pass})
			if !slices.Contains(rows[at].crossing, pass.Y) {
				rows[at].crossing = append(rows[at].crossing, pass.Y)
			}
			rows[at+1].include(pass.Y, pass.Y)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], next)
		rows[at].include(next.Y, next.Y)
	}
	return parts
}

// stack places the rows one below the other, with room for the lines between them.
func (p *placed) stack(rows []row) {
	y, end := 0.0, p.w
	p.w = 0
	for i := range rows {
		r := &rows[i]
		slices.Sort(r.crossing)
		r.dy = y - r.top
		if i > 0 {
			r.dx = rowLead + trackGap*float64(len(rows[i-1].crossing)) - r.from
		}
		y += r.bottom - r.top
		right := min(r.to, end) + r.dx
		if n := len(r.crossing); n > 0 {
			y += rowLead + trackGap*float64(n) + rowGap
			right += rowLead + trackGap*float64(n)
		}
		p.w = max(p.w, right)
	}
	p.h = y
}

// onOneLine reports whether three points are on one horizontal or vertical line.
func onOneLine(a, b, c Point) bool { return a.X == b.X && b.X == c.X || a.Y == b.Y && b.Y == c.Y }

// joined leads the parts of a line from row to row: out at the right, below the row, and in at the left. The upper ones
// of the lines that leave a row pass around the lower ones.
func joined(rows []row, at int, parts [][]Point) []Point {
	var out []Point
	add := func(points ...Point) {
		for _, next := range points {
			if n := len(out); n >= 2 && onOneLine(out[n-2], out[n-1], next) {
				out[n-1] = next
				continue
			}
			if n := len(out); n == 0 || out[n-1] != next {
				out = append(out, next)
			}
		}
	}
	for i, part := range parts {
		r := &rows[at+i]
		for _, point := range part {
			add(Point{point.X + r.dx, point.Y + r.dy})
		}
		if i == len(parts)-1 {
			break
		}
		next := &rows[at+i+1]
		y := part[len(part)-1].Y
		above, _ := slices.BinarySearch(r.crossing, y)
		inner, outer := float64(len(r.crossing)-1-above)*trackGap, float64(above)*trackGap
		right, below := r.to+r.dx+rowLead+inner, r.bottom+r.dy+rowLead+inner
		left := next.from + next.dx - rowLead/2 - outer
		add(Point{right, y + r.dy}, Point{right, below}, Point{left, below}, Point{left, y + next.dy})
	}
	return out
}
