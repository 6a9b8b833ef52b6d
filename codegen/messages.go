package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// message is the form of a text that is published on channels, such as `work {partition} {number}`. Every parameter but the
// last is without blanks.
type message struct {
	pos      position
	name     string
	channels []string // templates
	parts    []templatePart
}

var messageParam = regexp.MustCompile(`\{([a-z_][a-z0-9_]*)\}`)

// takeMessage takes `@message name channel,channel text`.
func takeMessage(l *library, t tag, p *problems) {
	list := strings.SplitN(strings.Join(strings.Fields(t.text), " "), " ", 3)
	if len(list) < 3 || !isName(list[0]) {
		p.add(t.pos, "@message needs a name, channels and a text")
		return
	}
	m := &message{pos: t.pos, name: list[0], channels: strings.Split(list[1], ",")}
	text, at := list[2], 0
	for _, found := range messageParam.FindAllStringSubmatchIndex(text, -1) {
		if found[0] > at {
			m.parts = append(m.parts, templatePart{literal: text[at:found[0]]})
		}
		m.parts = append(m.parts, templatePart{param: text[found[2]:found[3]]})
		at = found[1]
	}
	if at < len(text) {
		m.parts = append(m.parts, templatePart{literal: text[at:]})
	}
	l.messages = append(l.messages, m)
}

func (m *message) params() []string {
	var out []string
	for _, part := range m.parts {
		if part.param != "" {
			out = append(out, part.param)
		}
	}
	return out
}

func (m *message) pattern() string {
	var b strings.Builder
	for _, part := range m.parts {
		if part.param != "" {
			b.WriteString("{" + part.param + "}")
		}
		b.WriteString(part.literal)
	}
	return b.String()
}

// verb is the first word of a message when that is fixed. Messages of one channel are told apart by it.
func (m *message) verb() string {
	word, _, _ := strings.Cut(m.parts[0].literal, " ")
	return word
}

// checkMessages reports messages without a channel, parameters that stand twice, and messages of one channel that cannot be
// told apart.
func checkMessages(l *library, p *problems) {
	verbs := map[string]*message{}
	for i, m := range l.messages {
		for _, o := range l.messages[:i] {
			if o.name == m.name {
				p.add(m.pos, "message %s is declared at %s:%d already", m.name, o.pos.file, o.pos.line)
			}
		}
		params := m.params()
		for i, name := range params {
			if slices.Contains(params[:i], name) {
				p.add(m.pos, "message %s has two parameters %s", m.name, name)
			}
		}
		for _, channel := range m.channels {
			if !strings.HasPrefix(channel, "channel.") || l.template(channel) == nil {
				p.add(m.pos, "message %s: no template %s of a channel", m.name, channel)
			}
			if o := verbs[channel+" "+m.verb()]; o != nil {
				p.add(m.pos, "messages %s and %s of %s cannot be told apart", o.name, m.name, channel)
			}
			verbs[channel+" "+m.verb()] = m
		}
	}
}

// emitMessages writes the functions of the Lua side that put messages together.
func emitMessages(l *library) string {
	var b strings.Builder
	b.WriteString(luaHeader)
	b.WriteString("-- The texts of messages, from their parameters in order.\n")
	for _, m := range l.messages {
		var parts []string
		for _, part := range m.parts {
			if part.param != "" {
				parts = append(parts, part.param)
			} else {
				parts = append(parts, luaQuote(part.literal))
			}
		}
		fmt.Fprintf(&b, "\nfunction message.%s(%s) return %s end\n", m.name, strings.Join(m.params(), ", "), strings.Join(parts, " .. "))
	}
	return b.String()
}

// docMessages writes the part of the function reference about messages.
func docMessages(b *strings.Builder, l *library) {
	b.WriteString("\n## Messages\n\nEach parameter but the last of a message is without blanks.\n\n| Message | Channels | Text |\n| --- | --- | --- |\n")
	for _, m := range l.messages {
		var channels []string
		for _, name := range m.channels {
			if t := l.template(name); t != nil {
				channels = append(channels, "`"+t.pattern()+"`")
			}
		}
		fmt.Fprintf(b, "| %s | %s | `%s` |\n", m.name, strings.Join(channels, ", "), m.pattern())
	}
}
