package layout

import (
	"math"
	"unicode/utf8"
)

// placed is a level with places. Until the end its X leads along the edges and its Y across them, and so do W and H.
type placed struct {
	w, h   float64
	boxes  []Box
	lines  []Line
	groups []Group
}

func (s *settings) layout(g *Graph) (*Layout, error) {
	p, err := s.place(g, "", 0)
	if err != nil {
		return nil, err
	}
	if s.wrap > 0 && s.direction == Right {
		p.wrap(s.wrap - 2*margin)
	}
	p.move(margin, margin)
	p.w, p.h = p.w+2*margin, p.h+2*margin
	if s.direction == Down {
		p.turn()
	}
	return &Layout{
		Name: g.Name, Description: g.Description, Input: g.Input, Result: g.Result,
		Direction: s.direction, Width: p.w, Height: p.h,
		Nodes: p.boxes, Edges: p.lines, Groups: p.groups,
	}, nil
}

// place lays out one graph.
func (s *settings) place(g *Graph, prefix string, depth int) (*placed, error) {
	l, err := s.newLevel(g, prefix, depth)
	if err != nil {
		return nil, err
	}
	if len(l.items) == 0 {
		return &placed{}, nil
	}
	s.makeRoom(l)
	k := newSketch(l, s.across)
	k.order()
	k.align()
	k.straighten()
	return newRouting(k, s).placed(), nil
}

// along and across are the size of a box in the direction of the edges, and at a right angle to it.
func (s *settings) along(b *Box) float64 {
	if s.direction == Down {
		return b.H
	}
	return b.W
}

func (s *settings) across(b *Box) float64 {
	if s.direction == Down {
		return b.W
	}
	return b.H
}

// makeRoom makes nodes higher that have more than three labels at their left border.
func (s *settings) makeRoom(l *level) {
	for i := range l.items {
		b := &l.items[i].box
		if labels := float64(l.items[i].labels()); s.direction == Right && labels > 3 {
			b.H = max(b.H, (labels-1)*labelledGap+2*portInset+4)
		}
	}
}

// labels counts the different labels of the lines that lead to an item.
func (it *item) labels() int {
	seen := make(map[string]bool)
	for i := range it.ups {
		if label := it.ups[i].edge.label(); label != "" {
			seen[label] = true
		}
	}
	return len(seen)
}

// label is the text at the end of an edge; one that only a success satisfies has none.
func (e Edge) label() string {
	switch e.Kind {
	case OnCase:
		return e.Case
	case OnFailure:
		return "on failure"
	case Always:
		return "always"
	case OrElse:
		return "or else"
	}
	return ""
}

// labelWidth estimates the width of a label in pixels, as it is drawn by SVG, which cuts it to maxLabel characters.
func labelWidth(label string) float64 {
	return math.Ceil(float64(min(utf8.RuneCountInString(label), maxLabel))*labelCharacter) + 8
}

const (
	maxLabel       = 18
	labelCharacter = 5.8
	labelHeight    = 14
)

// move moves everything.
func (p *placed) move(x, y float64) {
	for i := range p.boxes {
		p.boxes[i].X += x
		p.boxes[i].Y += y
	}
	for i := range p.groups {
		p.groups[i].X += x
		p.groups[i].Y += y
	}
	for i := range p.lines {
		l := &p.lines[i]
		for j := range l.Points {
			l.Points[j].X += x
			l.Points[j].Y += y
		}
		if l.LabelAt != nil {
			l.LabelAt.X += x
			l.LabelAt.Y += y
		}
	}
}

// turn exchanges the axes.
func (p *placed) turn() {
	p.w, p.h = p.h, p.w
	for i := range p.boxes {
		b := &p.boxes[i]
		b.X, b.Y, b.W, b.H = b.Y, b.X, b.H, b.W
	}
	for i := range p.groups {
		g := &p.groups[i]
		g.X, g.Y, g.W, g.H = g.Y, g.X, g.H, g.W
	}
	for i := range p.lines {
		l := &p.lines[i]
		for j, at := range l.Points {
			l.Points[j] = Point{at.Y, at.X}
		}
		if l.LabelAt != nil {
			*l.LabelAt = Point{l.LabelAt.Y, l.LabelAt.X}
		}
	}
}
