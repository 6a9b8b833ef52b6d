package layout

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
