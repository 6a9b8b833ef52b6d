package header

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
	FormMessage formKind = iota // published on channels
	FormText                    // an argument, a reply or a stored value, or part of one
	FormList                    // elements one after the other
	FormSet                     // elements between line feeds
	FormFrame                   // a message that holds several of its channel, each after its length
	FormDigits                  // a text of one digit for each element, the sum of the values of its properties
)

var formTags = map[string]formKind{
	"message": FormMessage, "text": FormText, "list": FormList, "set": FormSet, "frame": FormFrame,
	"digits": FormDigits,
}

func (k formKind) Tag() string {
	for tag, kind := range formTags {
		if kind == k {
			return tag
		}
	}
	return ""
}

// Form is the declared form of a message or text, such as `work {partition} {mark}`.
type Form struct {
	Pos      Position
	Kind     formKind
	Name     string
	Channels []string // templates; of messages and frames
	Parts    []TextPart
}

// TextPart is literal text or, with param set, the place of a parameter.
type TextPart struct {
	Literal string
	Param   string
	Typ     ScalarType
	// Optional: the last parameter is left out with the literal before it when it is empty.
	Optional bool
	// Mark: the parameter is a bool, and this text takes its place if it is true.
	Mark string
}

// textTypes are the types of parameters that only texts have, in addition to the scalars. A word is a text of a fixed
// form: one of several known words, or an id.
var textTypes = []ScalarType{
	{"word", "string", KindText},
	{"partition", "keyspace.Partition", KindPartition},
	{"any_partition", "keyspace.Partition", KindAnyPartition},
}

var textParam = regexp.MustCompile(`\{([a-z_][a-z0-9_]*)(\?)?(?::([a-z_]+)|:'([^']+)')?(\?)?\}`)

// takeForm takes `@message name channel,channel text`, and the same without channels for other texts.
func takeForm(l *Library, t Tag, p *Problems) {
	form, err := ParseForm(t)
	if err != nil {
		p.Add(t.Pos, "@%s: %v", t.Word, err)
		return
	}
	l.Forms = append(l.Forms, form)
}

func ParseForm(t Tag) (*Form, error) {
	form := &Form{Pos: t.Pos, Kind: formTags[t.Word]}
	onChannels := form.Kind == FormMessage || form.Kind == FormFrame
	words := 2
	if onChannels {
		words = 3
	}
	list := strings.SplitN(strings.Join(strings.Fields(t.Text), " "), " ", words)
	if len(list) < words || !isName(list[0]) {
		if onChannels {
			return nil, fmt.Errorf("needs a name, channels and a text")
		}
		return nil, fmt.Errorf("needs a name and a text")
	}
	form.Name = list[0]
	if onChannels {
		form.Channels = strings.Split(list[1], ",")
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

func (m *Form) takeParts(text string) error {
	at := 0
	for _, found := range textParam.FindAllStringSubmatchIndex(text, -1) {
		if found[0] > at {
			m.Parts = append(m.Parts, TextPart{Literal: text[at:found[0]]})
		}
		group := func(i int) string {
			if found[2*i] < 0 {
				return ""
			}
			return text[found[2*i]:found[2*i+1]]
		}
		part := TextPart{Param: group(1), Optional: group(2)+group(5) != "", Mark: group(4)}
		switch name := group(3); {
		case part.Mark != "":
			part.Typ, _ = ScalarNamed("bool")
		case name == "":
			part.Typ = textType(part.Param)
		default:
			if part.Typ = textType(name); part.Typ.Name != name {
				return fmt.Errorf("unknown type %s", name)
			}
		}
		m.Parts = append(m.Parts, part)
		at = found[1]
	}
	if at < len(text) {
		m.Parts = append(m.Parts, TextPart{Literal: text[at:]})
	}
	return nil
}

// textType is the type of a name, or text.
func textType(name string) ScalarType {
	for _, t := range textTypes {
		if t.Name == name {
			return t
		}
	}
	return ParamType(name)
}

// Params lists the parameters in order.
func (m *Form) Params() []TextPart {
	return slices.DeleteFunc(slices.Clone(m.Parts), func(x TextPart) bool { return x.Param == "" })
}

// IsFree reports whether a parameter may have any text as its value, except the text after it.
func (x TextPart) IsFree() bool {
	return x.Param != "" && x.Mark == "" && x.Typ.Name != "word" &&
		(x.Typ.Kind == KindBytes || x.Typ.Kind == KindText && isFreeText(x.Typ.Name))
}

// Pattern is the declared text; written is the same in the syntax of headers.
func (m *Form) Pattern() string {
	return m.patternOf(func(x TextPart) string { return x.Param + x.suffix() })
}

// Wire is the text with the types of parameters and without their names, which programs do not see.
func (m *Form) Wire() string {
	return m.patternOf(func(x TextPart) string { return x.Typ.Name + x.suffix() })
}

func (m *Form) Declared() string {
	text := m.patternOf(func(x TextPart) string {
		if x.Mark == "" && x.Param != x.Typ.Name {
			return x.Param + ":" + x.Typ.Name + x.suffix()
		}
		return x.Param + x.suffix()
	})
	if strings.TrimSpace(text) != text || strings.ContainsAny(text, "\n\"") {
		return strconv.Quote(text)
	}
	return text
}

func (x TextPart) suffix() string {
	switch {
	case x.Mark != "":
		return ":'" + x.Mark + "'"
	case x.Optional:
		return "?"
	}
	return ""
}

func (m *Form) patternOf(name func(TextPart) string) string {
	var b strings.Builder
	for _, part := range m.Parts {
		if part.Param != "" {
			b.WriteString("{" + name(part) + "}")
		}
		b.WriteString(part.Literal)
	}
	return b.String()
}

// Verb is the first word of a message when that is fixed. It distinguishes the messages of one channel.
func (m *Form) Verb() string {
	word, _, _ := strings.Cut(m.Parts[0].Literal, " ")
	return word
}

// Terminator is the literal that ends the value of a parameter, "" for the last one.
func (m *Form) Terminator(i int) string {
	if i+1 < len(m.Parts) {
		return m.Parts[i+1].Literal
	}
	return ""
}

// digit is one meaning of a digit.
type digit struct {
	Name  string
	Value int
}

var digitWord = regexp.MustCompile(`^([a-z][a-z_]*)=\+?([0-9])$`)

// Digits reads `name=digit` and, for a value that is added to others, `name=+digit`.
func (m *Form) Digits() ([]digit, error) {
	var out []digit
	for word := range strings.FieldsSeq(m.Parts[0].Literal) {
		found := digitWord.FindStringSubmatch(word)
		if found == nil {
			return nil, fmt.Errorf("%s: %q is not name=digit", m.Name, word)
		}
		out = append(out, digit{m.Name + "_" + found[1], int(found[2][0] - '0')})
	}
	return out, nil
}

// IsFormTag reports whether a line of a wire form declares a message or text.
func IsFormTag(word string) bool {
	_, ok := formTags[word]
	return ok
}
