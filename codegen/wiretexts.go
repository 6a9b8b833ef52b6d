package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// isFormTag reports whether a line of a wire form declares a message or text.
func isFormTag(word string) bool {
	_, ok := formTags[word]
	return ok
}

// emitWireTexts writes the messages and texts of a wire form, with the channels as patterns.
func emitWireTexts(b *strings.Builder, l *library) {
	forms := slices.SortedFunc(slices.Values(l.forms), func(a, b *textForm) int { return strings.Compare(a.name, b.name) })
	for i, m := range forms {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(m.kind.tag() + " " + m.name + " ")
		if len(m.channels) > 0 {
			b.WriteString(strings.Join(channelPatterns(l, m), ",") + " ")
		}
		b.WriteString(m.declared() + "\n")
	}
}

// channelPatterns are the patterns of a message's channels. A message that was read from a wire form has patterns
// already.
func channelPatterns(l *library, m *textForm) []string {
	var out []string
	for _, name := range m.channels {
		if t := l.template(name); t != nil {
			name = t.pattern()
		}
		out = append(out, name)
	}
	return out
}

// brokenTexts lists the messages and texts of old that a program of the present library sends or reads otherwise. The
// names of parameters are not on the wire.
func brokenTexts(old map[string]*textForm, l *library) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(old)) {
		before := old[name]
		i := slices.IndexFunc(l.forms, func(m *textForm) bool { return m.name == name })
		if i < 0 {
			out = append(out, fmt.Sprintf("%s %s is gone", before.kind.tag(), name))
			continue
		}
		after := l.forms[i]
		if after.kind != before.kind {
			out = append(out, fmt.Sprintf("%s %s is a %s now", before.kind.tag(), name, after.kind.tag()))
			continue
		}
		now := channelPatterns(l, after)
		for _, channel := range before.channels {
			if !slices.Contains(now, channel) {
				out = append(out, fmt.Sprintf("%s %s is no longer sent on %s", before.kind.tag(), name, channel))
			}
		}
		if after.wire() != before.wire() && !after.extends(before) {
			out = append(out, fmt.Sprintf("%s %s was `%s` and is `%s`", before.kind.tag(), name, before.declared(),
				after.declared()))
		}
	}
	return out
}

// extends reports whether m is another message with an optional part at its end, which the readers of the other ignore.
func (m *textForm) extends(before *textForm) bool {
	last := before.parts[len(before.parts)-1]
	n := len(before.parts)
	if m.kind != formMessage || len(m.parts) != n+2 || last.param == "" || last.isFree() || last.optional ||
		last.mark != "" {
		return false
	}
	head := &textForm{parts: m.parts[:n]}
	return head.wire() == before.wire() && m.parts[n].literal == " " && m.parts[n+1].optional
}
