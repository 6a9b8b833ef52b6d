package check

import (
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// Forms reports forms that cannot be read, names that are declared twice, messages without a channel, and messages
// of one channel that cannot be distinguished.
func Forms(l *header.Library, p *header.Problems) {
	verbs := map[string]*header.Form{}
	for i, m := range l.Forms {
		for _, o := range l.Forms[:i] {
			if o.Name == m.Name {
				p.Add(m.Pos, "%s is declared at %s:%d already", m.Name, o.Pos.File, o.Pos.Line)
			}
		}
		checkParts(m, p)
		for _, channel := range m.Channels {
			if !strings.HasPrefix(channel, "channel.") || l.Template(channel) == nil {
				p.Add(m.Pos, "message %s: no template %s of a channel", m.Name, channel)
			}
			if o := verbs[channel+" "+m.Verb()]; o != nil {
				p.Add(m.Pos, "messages %s and %s of %s cannot be distinguished", o.Name, m.Name, channel)
			}
			verbs[channel+" "+m.Verb()] = m
		}
	}
}

func checkParts(m *header.Form, p *header.Problems) {
	seen := map[string]bool{}
	for i, x := range m.Parts {
		if x.Param == "" {
			continue
		}
		last := i == len(m.Parts)-1
		switch {
		case seen[x.Param]:
			p.Add(m.Pos, "%s has two parameters %s", m.Name, x.Param)
		case x.Mark != "" && i > 0 && !last:
			p.Add(m.Pos, "%s: the mark %s is neither first nor last", m.Name, x.Param)
		case x.Optional && (!last || i == 0 || m.Parts[i-1].Literal == ""):
			p.Add(m.Pos, "%s: %s is optional and not the last part after a text", m.Name, x.Param)
		case x.Mark == "" && !last && m.Parts[i+1].Literal == "" && m.Parts[i+1].Mark == "":
			p.Add(m.Pos, "%s: %s and %s are not separated", m.Name, x.Param, m.Parts[i+1].Param)
		case slices.Contains([]header.ValueKind{header.KindBool}, x.Typ.Kind) && x.Mark == "":
			p.Add(m.Pos, "%s: %s is a bool without a mark", m.Name, x.Param)
		}
		seen[x.Param] = true
	}
	switch params := m.Params(); {
	case m.Kind == header.FormFrame && (len(params) > 0 || len(m.Parts) != 1):
		p.Add(m.Pos, "frame %s has parameters", m.Name)
	case m.Kind == header.FormSet && (len(m.Parts) != 1 || len(params) != 1):
		p.Add(m.Pos, "set %s is not of one parameter", m.Name)
	case m.Kind == header.FormDigits:
		if _, err := m.Digits(); err != nil {
			p.Add(m.Pos, "%v", err)
		}
	case m.Kind == header.FormList && m.Parts[len(m.Parts)-1].Literal == "":
		p.Add(m.Pos, "nothing ends an element of list %s", m.Name)
	}
}
