package layout

import "strings"

// edges draws the lines: those that have not come yet first, so that the others are above them.
func (d *drawing) edges() {
	d.b.WriteString("<g aria-hidden=\"true\">\n")
	for _, pass := range []string{" off", " future", ""} {
		for i := range d.Edges {
			if l := &d.Edges[i]; d.phase(l) == pass {
				d.edge(l, pass)
			}
		}
	}
	d.b.WriteString("</g>\n")
}

// phase is the class of a line by the states of its ends: one that is not taken, one that has not come yet, or any
// other.
func (d *drawing) phase(l *Line) string {
	group := l.From[:max(strings.LastIndexByte(strings.TrimSuffix(l.From, foldSuffix), '/'), 0)]
	if !d.hasState(group) {
		return ""
	}
	from, to := d.stateOf(l.From), d.stateOf(l.To)
	switch {
	case l.From == "/"+string(Start):
		return ""
	case from == Skipped && l.Kind != Always || to == Skipped:
		return " off"
	case !from.over():
		return " future"
	case from != Succeeded && l.Kind == OnSuccess, from == Succeeded && l.Kind == OnFailure:
		return " off"
	}
	return ""
}

// over reports whether a node in the state has ended.
func (s State) over() bool {
	switch s {
	case Succeeded, Failed, Cancelled, Skipped, Expired:
		return true
	}
	return false
}

func (d *drawing) stateOf(id string) State {
	if b := d.byID(id); b != nil && b.Kind == Fold {
		return d.state(b).State
	}
	return d.states[id].State
}

// byID returns a node; nil for a group.
func (d *drawing) byID(id string) *Box {
	if d.boxes == nil {
		d.boxes = make(map[string]*Box, len(d.Nodes))
		for i := range d.Nodes {
			d.boxes[d.Nodes[i].ID] = &d.Nodes[i]
		}
	}
	return d.boxes[id]
}

func (d *drawing) edge(l *Line, phase string) {
	class := "edge"
	switch l.Kind {
	case OnFailure:
		class += " failure"
	case Always:
		class += " always"
	}
	d.printf("<path class=\"%s%s\" d=\"%s\"/>", class, phase, rounded(l.Points))
	if !l.Data && l.Kind == OnSuccess {
		phase += " order"
	}
	end := l.Points[len(l.Points)-1]
	if d.Direction == Down {
		d.printf("<path class=\"head%s\" d=\"M%s %sl3.5 -7h-7z\"/>\n", phase, px(end.X), px(end.Y))
		return
	}
	d.printf("<path class=\"head%s\" d=\"M%s %sl-7 -3.5v7z\"/>\n", phase, px(end.X), px(end.Y))
}

// cornerRadius is that of the corners of lines, in pixels.
const cornerRadius = 8.0

// rounded returns the way through the points, with round corners.
func rounded(points []Point) string {
	var b strings.Builder
	b.WriteString("M" + px(points[0].X) + " " + px(points[0].Y))
	for i := 1; i < len(points)-1; i++ {
		before, corner, behind := points[i-1], points[i], points[i+1]
		r := min(cornerRadius, distance(before, corner)/2, distance(corner, behind)/2)
		from, to := towards(corner, before, r), towards(corner, behind, r)
		b.WriteString("L" + px(from.X) + " " + px(from.Y) + "Q" + px(corner.X) + " " + px(corner.Y))
		b.WriteString(" " + px(to.X) + " " + px(to.Y))
	}
	last := points[len(points)-1]
	b.WriteString("L" + px(last.X) + " " + px(last.Y))
	return b.String()
}

// distance is that of two points that differ in one coordinate.
func distance(a, b Point) float64 { return max(a.X-b.X, b.X-a.X) + max(a.Y-b.Y, b.Y-a.Y) }

// towards returns the point at a distance from a on the way to b.
func towards(a, b Point, at float64) Point {
	whole := distance(a, b)
	if whole == 0 {
		return a
	}
	return Point{a.X + (b.X-a.X)*at/whole, a.Y + (b.Y-a.Y)*at/whole}
}

// labels writes the texts at the ends of lines.
func (d *drawing) labels() {
	d.b.WriteString("<g aria-hidden=\"true\">\n")
	for i := range d.Edges {
		if l := &d.Edges[i]; l.LabelAt != nil {
			d.printf("<text class=\"label\" x=\"%s\" y=\"%s\">%s</text>\n", px(l.LabelAt.X), px(l.LabelAt.Y+4),
				escapeXML(cutEnd(l.Label, maxLabel)))
		}
	}
	d.b.WriteString("</g>\n")
}
