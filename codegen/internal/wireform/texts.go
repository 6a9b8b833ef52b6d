package wireform

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// emitWireTexts writes the messages and texts of a wire form, with the channels as patterns.
func emitWireTexts(b *strings.Builder, l *header.Library) {
	forms := slices.SortedFunc(slices.Values(l.Forms), func(a, b *header.Form) int { return strings.Compare(a.Name, b.Name) })
	for i, m := range forms {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(m.Kind.Tag() + " " + m.Name + " ")
		if len(m.Channels) > 0 {
			b.WriteString(strings.Join(channelPatterns(l, m), ",") + " ")
		}
		b.WriteString(m.Declared() + "\n")
	}
}

// channelPatterns are the patterns of a message's channels. A message that was read from a wire form has patterns
// already.
func channelPatterns(l *header.Library, m *header.Form) []string {
	var out []string
	for _, name := range m.Channels {
		if t := l.Template(name); t != nil {
			name = t.Pattern()
		}
		out = append(out, name)
	}
	return out
}

// brokenTexts lists the messages and texts of old that a program of the present library sends or reads otherwise. The
// names of parameters are not on the wire.
func brokenTexts(old map[string]*header.Form, l *header.Library) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(old)) {
		before := old[name]
		i := slices.IndexFunc(l.Forms, func(m *header.Form) bool { return m.Name == name })
		if i < 0 {
			out = append(out, fmt.Sprintf("%s %s is gone", before.Kind.Tag(), name))
			continue
		}
		after := l.Forms[i]
		if after.Kind != before.Kind {
			out = append(out, fmt.Sprintf("%s %s is a %s now", before.Kind.Tag(), name, after.Kind.Tag()))
			continue
		}
		now := channelPatterns(l, after)
		for _, channel := range before.Channels {
			if !slices.Contains(now, channel) {
				out = append(out, fmt.Sprintf("%s %s is no longer sent on %s", before.Kind.Tag(), name, channel))
			}
		}
		if after.Wire() != before.Wire() && !extends(after, before) {
			out = append(out, fmt.Sprintf("%s %s was `%s` and is `%s`", before.Kind.Tag(), name, before.Declared(),
				after.Declared()))
		}
	}
	return out
}

// extends reports whether m is another message with an optional part at its end, which the readers of the other ignore.
func extends(m *header.Form, before *header.Form) bool {
	last := before.Parts[len(before.Parts)-1]
	n := len(before.Parts)
	if m.Kind != header.FormMessage || len(m.Parts) != n+2 || last.Param == "" || last.IsFree() || last.Optional ||
		last.Mark != "" {
		return false
	}
	head := &header.Form{Parts: m.Parts[:n]}
	return head.Wire() == before.Wire() && m.Parts[n].Literal == " " && m.Parts[n+1].Optional
}
