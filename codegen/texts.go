package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// formKind is the place where a declared text is used.
type formKind int

const (
	formMessage formKind = iota // published on channels
	formText                    // an argument, a reply or a stored value, or part of one
	formList                    // elements one after the other
	formSet                     // elements between line feeds
	formFrame                   // a message that holds several of its channel, each after its length
	formDigits                  // a text of one digit for each element, the sum of the values of its properties
)

var formTags = map[string]formKind{
	"message": formMessage, "text": formText, "list": formList, "set": formSet, "frame": formFrame,
	"digits": formDigits,
}

func (k formKind) tag() string {
	for tag, kind := range formTags {
		if kind == k {
			return tag
		}
	}
	return ""
}

// textForm is the declared form of a message or text, such as `work {partition} {mark}`.
type textForm struct {
	pos      position
	kind     formKind
	name     string
	channels []string // templates; of messages and frames
	parts    []textPart
}

// textPart is literal text or, with param set, the place of a parameter.
type textPart struct {
	literal string
	param   string
	typ     scalarType
	// optional: the last parameter is left out with the literal before it when it is empty.
	optional bool
	// mark: the parameter is a bool, and this text takes its place if it is true.
	mark string
}

// textTypes are the types of parameters that only texts have, in addition to the scalars. A word is a text of a fixed
// form: one of several known words, or an id.
var textTypes = []scalarType{
	{"word", "string", kindText},
	{"partition", "keyspace.Partition", kindPartition},
	{"any_partition", "keyspace.Partition", kindAnyPartition},
}

var textParam = regexp.MustCompile(`\{([a-z_][a-z0-9_]*)(\?)?(?::([a-z_]+)|:'([^']+)')?(\?)?\}`)

// takeForm takes `@message name channel,channel text`, and the same without channels for other texts.
func takeForm(l *library, t tag, p *problems) {
	form, err := parseForm(t)
	if err != nil {
		p.add(t.pos, "@%s: %v", t.word, err)
		return
	}
	l.forms = append(l.forms, form)
}

func parseForm(t tag) (*textForm, error) {
	form := &textForm{pos: t.pos, kind: formTags[t.word]}
	onChannels := form.kind == formMessage || form.kind == formFrame
	words := 2
	if onChannels {
		words = 3
	}
	list := strings.SplitN(strings.Join(strings.Fields(t.text), " "), " ", words)
	if len(list) < words || !isName(list[0]) {
		if onChannels {
			return nil, fmt.Errorf("needs a name, channels and a text")
		}
		return nil, fmt.Errorf("needs a name and a text")
	}
	form.name = list[0]
	if onChannels {
		form.channels = strings.Split(list[1], ",")
	}
	text := list[words-1]
	if strings.HasPrefix(text, `"`) {
		var err error
		if text, err = strconv.Unquote(text); err != nil {
			return nil, fmt.Errorf("%s: %w", list[words-1], err)
		}
	}
	return form, form.takeParts(text)
}

func (m *textForm) takeParts(text string) error {
	at := 0
	for _, found := range textParam.FindAllStringSubmatchIndex(text, -1) {
		if found[0] > at {
			m.parts = append(m.parts, textPart{literal: text[at:found[0]]})
		}
		group := func(i int) string {
			if found[2*i] < 0 {
				return ""
			}
			return text[found[2*i]:found[2*i+1]]
		}
		part := textPart{param: group(1), optional: group(2)+group(5) != "", mark: group(4)}
		switch name := group(3); {
		case part.mark != "":
			part.typ, _ = scalarNamed("bool")
		case name == "":
			part.typ = textType(part.param)
		default:
			if part.typ = textType(name); part.typ.name != name {
				return fmt.Errorf("unknown type %s", name)
			}
		}
		m.parts = append(m.parts, part)
		at = found[1]
	}
	if at < len(text) {
		m.parts = append(m.parts, textPart{literal: text[at:]})
	}
	return nil
}

// textType is the type of a name, or text.
func textType(name string) scalarType {
	for _, t := range textTypes {
		if t.name == name {
			return t
		}
	}
	return paramType(name)
}

// params lists the parameters in order.
func (m *textForm) params() []textPart {
	return slices.DeleteFunc(slices.Clone(m.parts), func(x textPart) bool { return x.param == "" })
}

// isFree reports whether a parameter may have any text as its value, except the text after it.
func (x textPart) isFree() bool {
	return x.param != "" && x.mark == "" && x.typ.name != "word" &&
		(x.typ.kind == kindBytes || x.typ.kind == kindText && isFreeText(x.typ.name))
}

// pattern is the declared text; written is the same in the syntax of headers.
func (m *textForm) pattern() string {
	return m.patternOf(func(x textPart) string { return x.param + x.suffix() })
}

// wire is the text with the types of parameters and without their names, which programs do not see.
func (m *textForm) wire() string {
	return m.patternOf(func(x textPart) string { return x.typ.name + x.suffix() })
}

func (m *textForm) declared() string {
	text := m.patternOf(func(x textPart) string {
		if x.mark == "" && x.param != x.typ.name {
			return x.param + ":" + x.typ.name + x.suffix()
		}
		return x.param + x.suffix()
	})
	if strings.TrimSpace(text) != text || strings.ContainsAny(text, "\n\"") {
		return strconv.Quote(text)
	}
	return text
}

func (x textPart) suffix() string {
	switch {
	case x.mark != "":
		return ":'" + x.mark + "'"
	case x.optional:
		return "?"
	}
	return ""
}

func (m *textForm) patternOf(name func(textPart) string) string {
	var b strings.Builder
	for _, part := range m.parts {
		if part.param != "" {
			b.WriteString("{" + name(part) + "}")
		}
		b.WriteString(part.literal)
	}
	return b.String()
}

// verb is the first word of a message when that is fixed. It distinguishes the messages of one channel.
func (m *textForm) verb() string {
	word, _, _ := strings.Cut(m.parts[0].literal, " ")
	return word
}

// terminator is the literal that ends the value of a parameter, "" for the last one.
func (m *textForm) terminator(i int) string {
	if i+1 < len(m.parts) {
		return m.parts[i+1].literal
	}
	return ""
}

// digit is one meaning of a digit.
type digit struct {
	name  string
	value int
}

var digitWord = regexp.MustCompile(`^([a-z][a-z_]*)=\+?([0-9])$`)

// digits reads `name=digit` and, for a value that is added to others, `name=+digit`.
func (m *textForm) digits() ([]digit, error) {
	var out []digit
	for word := range strings.FieldsSeq(m.parts[0].literal) {
		found := digitWord.FindStringSubmatch(word)
		if found == nil {
			return nil, fmt.Errorf("%s: %q is not name=digit", m.name, word)
		}
		out = append(out, digit{m.name + "_" + found[1], int(found[2][0] - '0')})
	}
	return out, nil
}

// checkForms reports forms that cannot be read, names that are declared twice, messages without a channel, and messages
// of one channel that cannot be distinguished.
func checkForms(l *library, p *problems) {
	verbs := map[string]*textForm{}
	for i, m := range l.forms {
		for _, o := range l.forms[:i] {
			if o.name == m.name {
				p.add(m.pos, "%s is declared at %s:%d already", m.name, o.pos.file, o.pos.line)
			}
		}
		m.checkParts(p)
		for _, channel := range m.channels {
			if !strings.HasPrefix(channel, "channel.") || l.template(channel) == nil {
				p.add(m.pos, "message %s: no template %s of a channel", m.name, channel)
			}
			if o := verbs[channel+" "+m.verb()]; o != nil {
				p.add(m.pos, "messages %s and %s of %s cannot be distinguished", o.name, m.name, channel)
			}
			verbs[channel+" "+m.verb()] = m
		}
	}
}

func (m *textForm) checkParts(p *problems) {
	seen := map[string]bool{}
	for i, x := range m.parts {
		if x.param == "" {
			continue
		}
		last := i == len(m.parts)-1
		switch {
		case seen[x.param]:
			p.add(m.pos, "%s has two parameters %s", m.name, x.param)
		case x.mark != "" && i > 0 && !last:
			p.add(m.pos, "%s: the mark %s is neither first nor last", m.name, x.param)
		case x.optional && (!last || i == 0 || m.parts[i-1].literal == ""):
			p.add(m.pos, "%s: %s is optional and not the last part after a text", m.name, x.param)
		case x.mark == "" && !last && m.parts[i+1].literal == "" && m.parts[i+1].mark == "":
			p.add(m.pos, "%s: %s and %s are not separated", m.name, x.param, m.parts[i+1].param)
		case slices.Contains([]valueKind{kindBool}, x.typ.kind) && x.mark == "":
			p.add(m.pos, "%s: %s is a bool without a mark", m.name, x.param)
		}
		seen[x.param] = true
	}
	switch params := m.params(); {
	case m.kind == formFrame && (len(params) > 0 || len(m.parts) != 1):
		p.add(m.pos, "frame %s has parameters", m.name)
	case m.kind == formSet && (len(m.parts) != 1 || len(params) != 1):
		p.add(m.pos, "set %s is not of one parameter", m.name)
	case m.kind == formDigits:
		if _, err := m.digits(); err != nil {
			p.add(m.pos, "%v", err)
		}
	case m.kind == formList && m.parts[len(m.parts)-1].literal == "":
		p.add(m.pos, "nothing ends an element of list %s", m.name)
	}
}
