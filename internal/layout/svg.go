package layout

import (
	"fmt"
	"slices"
	"strings"
)

// SVG returns the drawing as an SVG document. states are the states of nodes in a run, by their IDs; nodes without one
// are drawn as NotStarted. nil draws the flow alone. Equal layouts and states give equal text.
//
// States and kinds differ in their icons, outlines and words, not in colour alone. Colours follow the colour scheme of
// the page or the reader. Each node has a title with its name, its kind, its state and its upstreams.
func (l *Layout) SVG(states map[string]NodeState) string {
	d := drawing{
		Layout: l, states: states, inRun: states != nil,
		ups: make(map[string][]*Line), known: map[string]bool{"": true},
	}
	for id := range states {
		at := strings.LastIndexByte(id, '/')
		d.known[id[:max(at, 0)]] = true
	}
	for i := range l.Edges {
		d.ups[l.Edges[i].To] = append(d.ups[l.Edges[i].To], &l.Edges[i])
	}
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" class="ff-flow" width="%s" height="%s" viewBox="0 0 %s %s" `,
		px(l.Width), px(l.Height), px(l.Width), px(l.Height))
	d.printf("role=\"group\" aria-label=\"%s\">\n<title>%s</title>\n<desc>%s</desc>\n", d.title(), d.title(), d.desc())
	d.printf("<style>\n%s</style>\n", styleSheet())
	d.printf("<rect class=\"ground\" width=\"%s\" height=\"%s\"/>\n", px(l.Width), px(l.Height))
	for i := range l.Groups {
		d.group(&l.Groups[i])
	}
	d.edges()
	for i := range l.Nodes {
		d.node(&l.Nodes[i])
	}
	d.labels()
	d.b.WriteString("</svg>\n")
	return d.b.String()
}

// drawing is an SVG document while it is written.
type drawing struct {
	*Layout
	b      strings.Builder
	states map[string]NodeState
	inRun  bool
	ups    map[string][]*Line
	// known are the groups whose nodes have states: those in a map or a loop are drawn without, since they are in it
	// several times.
	known map[string]bool
	boxes map[string]*Box
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

func (d *drawing) title() string { return "Flow " + escapeXML(d.Name) }

// desc describes the drawing in one sentence, after the description of the flow.
func (d *drawing) desc() string {
	nodes, layers := 0, 0
	for i := range d.Nodes {
		b := &d.Nodes[i]
		if b.Kind == Start || b.Kind == End {
			continue
		}
		nodes += max(1, len(b.Members))
		if b.Group == "" {
			layers = max(layers, b.Layer)
		}
	}
	text := plural(nodes, "node")
	if d.Input != "" && d.Result != "" {
		text += ", from " + d.Input + " to " + d.Result
	}
	text += ". Each node names those that it comes after."
	if d.Description != "" {
		text = strings.TrimSpace(d.Description) + " " + text
	}
	return escapeXML(text)
}

// state returns the state of a node; the state of a fold is made of the states of its members.
func (d *drawing) state(b *Box) NodeState {
	if b.Kind != Fold {
		s := d.states[b.ID]
		if s.State == "" {
			s.State = NotStarted
		}
		return s
	}
	counts := make(map[State]int)
	for _, id := range b.Members {
		s := d.states[id].State
		if s == "" {
			s = NotStarted
		}
		counts[s]++
	}
	s := NodeState{Progress: Progress{
		Succeeded: counts[Succeeded], Failed: counts[Failed] + counts[Expired], Running: counts[Running],
		Total: b.Count,
	}}
	ended := 0
	for _, state := range slices.Backward(attention) {
		if counts[state] > 0 {
			s.State = state
		}
		if state.over() {
			ended += counts[state]
		}
	}
	s.Text = fmt.Sprintf("%s of %s ended", thousands(ended), thousands(b.Count))
	return s
}

// box writes the outline of a node, whose shape shows the kind.
func (d *drawing) box(b *Box) {
	sheets := 0
	switch b.Kind {
	case Map, SubFlow, Loop, Expansion:
		sheets = 1
	case Fold:
		sheets = 2
	}
	for ; sheets > 0; sheets-- {
		at := float64(sheets) * 5
		y := b.Y - at
		if d.Direction == Down { // lines come in above
			y = b.Y + at
		}
		d.printf(`<rect class="box" x="%s" y="%s" width="%s" height="%s" rx="7"/>`, px(b.X+at), px(y), px(b.W), px(b.H))
	}
	switch b.Kind {
	case Condition:
		const cut = 10
		d.printf(`<path class="box" d="M%s %sH%sL%s %sV%sL%s %sH%sL%s %sV%sz"/>`,
			px(b.X+cut), px(b.Y), px(b.X+b.W-cut), px(b.X+b.W), px(b.Y+cut), px(b.Y+b.H-cut), px(b.X+b.W-cut),
			px(b.Y+b.H), px(b.X+cut), px(b.X), px(b.Y+b.H-cut), px(b.Y+cut))
	case Waitpoint, Timer:
		d.printf(`<rect class="box" x="%s" y="%s" width="%s" height="%s" rx="15"/>`, px(b.X), px(b.Y), px(b.W), px(b.H))
	default:
		d.printf(`<rect class="box" x="%s" y="%s" width="%s" height="%s" rx="7"/>`, px(b.X), px(b.Y), px(b.W), px(b.H))
	}
}

// look is how a node is drawn: the class of the whole, the icon with the class of its colour, and the line below the
// name.
type look struct {
	class, icon, hue, text string
	state                  NodeState
}

// look returns how a node is drawn, without a state or with one.
func (d *drawing) look(b *Box) look {
	l := look{class: "node", icon: kindIcons[b.Kind], hue: "kind", text: b.Text}
	if b.Kind == Fold {
		l.text = plural(b.Count, "node") + ": " + b.Text
	}
	if !d.hasState(b.Group) {
		return l
	}
	l.state = d.state(b)
	s := stateLooks[l.state.State]
	l.icon, l.hue = s.icon, s.hue
	switch {
	case s.open:
		l.class += " open " + s.hue
	case l.state.State == NotStarted || l.state.State == Queued:
		l.class += " none"
	case l.state.State == Skipped:
		l.class += " off"
	}
	switch {
	case l.state.Text != "":
		l.text = l.state.Text
	case l.state.State != NotStarted:
		l.text = s.word
	}
	return l
}

// hasState reports whether the nodes in a group have states.
func (d *drawing) hasState(group string) bool { return d.inRun && d.known[group] }

func (d *drawing) node(b *Box) {
	if b.Kind == Start || b.Kind == End {
		d.mark(b)
		return
	}
	l := d.look(b)
	d.printf(`<g class="%s" role="img"><title>%s</title>`, l.class, escapeXML(d.nodeTitle(b, l.state)))
	d.box(b)
	middle := b.Y + b.H/2
	if l.state.Progress.Total > 0 {
		d.ring(b.X+17, middle, l.state.Progress)
	} else {
		d.printf(`<g class="%s" transform="translate(%s %s)">%s</g>`, l.hue, px(b.X+9), px(middle-8), l.icon)
	}
	room := b.W - textLeft - textRight
	nameRoom := room
	if d.hasState(b.Group) && b.Kind != Activity {
		d.printf(`<g class="kind" transform="translate(%s %s) scale(.75)">%s</g>`, px(b.X+b.W-17), px(b.Y+6),
			kindIcons[b.Kind])
		nameRoom -= 10
	}
	d.printf(`<text class="name" x="%s" y="%s">%s</text>`, px(b.X+textLeft), px(middle-3),
		escapeXML(cutMiddle(b.Name, int(nameRoom/nameCharacter))))
	d.printf(`<text x="%s" y="%s">%s</text>`, px(b.X+textLeft), px(middle+12),
		escapeXML(cutEnd(l.text, int(room/textCharacter))))
	d.tag(b.X+10, b.Y, b.tag())
	d.b.WriteString("</g>\n")
}

// tag is the text at the upper border of a node.
func (b *Box) tag() string {
	if b.Finally {
		return "finally"
	}
	return b.Join
}

func (d *drawing) tag(x, y float64, text string) {
	if text == "" {
		return
	}
	width := 5*float64(len(text)) + 12
	d.printf(`<rect class="tag" x="%s" y="%s" width="%s" height="14" rx="7"/>`, px(x), px(y-10), px(width))
	d.printf(`<text class="tagged" x="%s" y="%s">%s</text>`, px(x+width/2), px(y+.5), escapeXML(text))
}

// group draws an open node.
func (d *drawing) group(g *Group) {
	b := &Box{ID: g.ID, Name: g.Name, Kind: g.Kind, Text: g.Text, Join: g.Join, Group: g.Group}
	l := d.look(b)
	d.printf(`<g role="img"><title>%s</title>`, escapeXML(d.nodeTitle(b, l.state)))
	d.printf(`<rect class="group" x="%s" y="%s" width="%s" height="%s" rx="10"/>`, px(g.X), px(g.Y), px(g.W), px(g.H))
	d.printf(`<g class="%s" transform="translate(%s %s)">%s</g>`, l.hue, px(g.X+12), px(g.Y+9), l.icon)
	d.printf(`<text x="%s" y="%s"><tspan class="name">%s</tspan>  %s</text>`, px(g.X+36), px(g.Y+21),
		escapeXML(g.Name), escapeXML(cutEnd(l.text, int((g.W-60)/textCharacter)-len(g.Name))))
	d.tag(g.X+10, g.Y, g.Join)
	d.b.WriteString("</g>\n")
}

// maxNamed bounds the upstreams that the title of a node names.
const maxNamed = 4

// nodeTitle describes a node for readers who do not see the drawing.
func (d *drawing) nodeTitle(b *Box, state NodeState) string {
	parts := []string{b.Name, strings.ReplaceAll(string(b.Kind), "_", "-")}
	if b.Kind == Fold {
		parts = []string{b.Name, plural(b.Count, "node") + " that are alike"}
	}
	if b.Text != "" && b.Text != parts[1] {
		parts = append(parts, b.Text)
	}
	if state.State != "" {
		parts = append(parts, stateLooks[state.State].word)
		if state.Text != "" {
			parts = append(parts, state.Text)
		}
	}
	if b.Finally {
		parts = append(parts, "however the run ends")
	}
	var after []string
	for _, up := range d.ups[b.ID] {
		name := strings.TrimPrefix(up.From, "/")
		if name == string(Start) {
			continue
		}
		if from := d.byID(up.From); from != nil && from.Kind == Fold {
			name = from.Name
		}
		if label := (Edge{Kind: up.Kind, Case: up.Case}).label(); label != "" {
			name += " (" + label + ")"
		}
		after = append(after, name)
	}
	if more := len(after) - maxNamed; more > 0 {
		after = append(after[:maxNamed], fmt.Sprintf("%d more", more))
	}
	if len(after) > 0 {
		join := ""
		if b.Join != "" {
			join = b.Join + " of "
		}
		parts = append(parts, "after "+join+strings.Join(after, ", "))
	}
	return strings.Join(parts, ", ")
}

// ring draws how far the executions of a node are.
func (d *drawing) ring(x, y float64, p Progress) {
	const around = 44.0 // the circumference
	d.printf(`<circle class="track" cx="%s" cy="%s" r="7"/>`, px(x), px(y))
	at := 0.0
	for _, part := range []struct {
		hue   string
		count int
	}{{"ok", p.Succeeded}, {"bad", p.Failed}, {"run", p.Running}} {
		if part.count == 0 {
			continue
		}
		share := around * float64(part.count) / float64(p.Total)
		d.printf(`<circle class="share %s" cx="%s" cy="%s" r="7" stroke-dasharray="%s %s" stroke-dashoffset="%s" `+
			`transform="rotate(-90 %s %s)"/>`, part.hue, px(x), px(y), px(share), px(around), px(-at), px(x), px(y))
		at += share
	}
}

// mark draws the mark of the input or of the result.
func (d *drawing) mark(b *Box) {
	x, y := px(b.X+b.W/2), px(b.Y+b.H/2)
	title := b.Name
	if b.Text != "" {
		title += ": " + b.Text
	}
	d.printf(`<g role="img"><title>%s</title>`, escapeXML(title))
	if b.Kind == Start {
		d.printf(`<circle class="mark" cx="%s" cy="%s" r="4.5"/></g>`+"\n", x, y)
		return
	}
	d.printf(`<circle class="ring" cx="%s" cy="%s" r="5"/>`, x, y)
	d.printf(`<circle class="mark" cx="%s" cy="%s" r="2"/></g>`+"\n", x, y)
}
