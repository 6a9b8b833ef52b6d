package main

import (
	"fmt"
	"strings"
)

// goName is the Go type of a message or text.
func (m *textForm) goName() string {
	switch m.kind {
	case formMessage:
		return exported(m.name) + "Message"
	case formSet:
		return exported(m.name)
	default:
		return exported(m.name) + "Text"
	}
}

// emitTexts writes the Go types of messages and texts with the functions that encode and decode them.
func emitTexts(l *library) (string, error) {
	var g goSource
	for _, m := range l.forms {
		switch m.kind {
		case formFrame: // internal/enginerpc/texts.go has the only one
		case formSet:
			emitSet(&g, m)
		case formDigits:
			if err := emitDigits(&g, m); err != nil {
				return "", err
			}
		case formList:
			emitTextStruct(&g, m, fmt.Sprintf("%s is an element `%s` of a list.", m.goName(), m.shown()))
			emitAppend(&g, m)
		default:
			emitTextStruct(&g, m, fmt.Sprintf("%s is %s.", m.goName(), m.description(l)))
			emitTextEncoder(&g, m)
			emitTextDecoder(&g, m)
		}
	}
	return g.file("enginerpc", "strconv", "strings", "time")
}

// shown is the pattern on one line.
func (m *textForm) shown() string { return strings.ReplaceAll(m.pattern(), "\n", `\n`) }

func (m *textForm) description(l *library) string {
	if m.kind != formMessage {
		return fmt.Sprintf("the text `%s`", m.shown())
	}
	var channels []string
	for _, name := range m.channels {
		channels = append(channels, "`"+l.template(name).pattern()+"`")
	}
	return fmt.Sprintf("the message `%s` on %s", m.shown(), strings.Join(channels, " and "))
}

func emitTextStruct(g *goSource, m *textForm, doc string) {
	g.comment("", doc)
	g.line("type %s struct {", m.goName())
	for _, x := range m.params() {
		g.line("\t%s %s", x.goField(), x.typ.goType)
	}
	g.line("}\n")
}

func (x textPart) goField() string { return fieldName(x.param, x.typ.name) }

// checked lists the parameters whose value may contain its terminator, with the terminators.
func (m *textForm) checked() (list []textPart, ends []string) {
	for i, x := range m.parts {
		if behind := m.terminator(i); x.isFree() && behind != "" {
			list, ends = append(list, x), append(ends, behind)
		}
	}
	return list, ends
}

func emitTextEncoder(g *goSource, m *textForm) {
	checked, ends := m.checked()
	result, tail := "string", ""
	if len(checked) > 0 {
		result, tail = "(string, error)", ", nil"
		g.comment("",
			fmt.Sprintf("Text returns the text that %s reads. It wraps ErrText if a value contains the text that ends it.", m.parser()))
	} else {
		g.comment("", fmt.Sprintf("Text returns the text that %s reads.", m.parser()))
	}
	g.line("func (m %s) Text() %s {", m.goName(), result)
	for i, x := range checked {
		value := "m." + x.goField()
		if x.typ.goType != "string" {
			value = "string(" + value + ")"
		}
		g.line("\tif err := checkPart(%q, %q, %s, %q); err != nil {\n\t\treturn \"\", err\n\t}", m.name, x.param, value,
			ends[i])
	}
	parts, last := m.parts, m.parts[len(m.parts)-1]
	if last.optional {
		parts = parts[:len(parts)-2]
	}
	var terms []string
	for _, x := range parts {
		terms = append(terms, goTerm(x))
	}
	text := strings.Join(terms, " + ")
	if last.optional {
		g.line("\tif m.%s == \"\" {\n\t\treturn %s%s\n\t}", last.goField(), text, tail)
		text += fmt.Sprintf(" + %q + %s", m.parts[len(m.parts)-2].literal, goTerm(last))
	}
	g.line("\treturn %s%s\n}\n", text, tail)
}

// goTerm is the expression of a part in a text.
func goTerm(x textPart) string {
	value := "m." + x.goField()
	switch {
	case x.param == "":
		return fmt.Sprintf("%q", x.literal)
	case x.mark != "":
		return fmt.Sprintf("markText(%s, %q)", value, x.mark)
	}
	switch x.typ.kind {
	case kindInt:
		return "strconv.FormatInt(int64(" + value + "), 10)"
	case kindFloat:
		return "strconv.FormatFloat(" + value + ", 'f', -1, 64)"
	case kindMillis:
		return "strconv.FormatInt(" + value + ".Milliseconds(), 10)"
	case kindTime:
		return "strconv.FormatInt(" + value + ".UnixMilli(), 10)"
	case kindPartition:
		return "strconv.Itoa(int(" + value + ".Index))"
	case kindAnyPartition:
		return "partitionText(" + value + ")"
	}
	if x.typ.goType == "string" {
		return value
	}
	return "string(" + value + ")"
}

// emitAppend writes the encoder of an element of a list.
func emitAppend(g *goSource, m *textForm) {
	g.line("// AppendText appends the element to a list.\nfunc (m %s) AppendText(list []byte) []byte {", m.goName())
	for _, x := range m.parts {
		value := "m." + x.goField()
		switch {
		case x.param == "":
			g.line("\tlist = append(list, %q...)", x.literal)
		case x.typ.kind == kindInt:
			g.line("\tlist = strconv.AppendInt(list, int64(%s), 10)", value)
		case x.typ.kind == kindPartition:
			g.line("\tlist = strconv.AppendUint(list, uint64(%s.Index), 10)", value)
		default:
			g.line("\tlist = append(list, %s...)", goTerm(x))
		}
	}
	g.line("\treturn list\n}\n")
}

// emitDigits writes the digits as numbers, to be added to the character 0.
func emitDigits(g *goSource, m *textForm) error {
	digits, err := m.digits()
	g.comment("",
		fmt.Sprintf("The digits of the text %s, one character for each element: `%s`. Digits with + are added to another digit.",
			m.name, m.shown()))
	g.line("const (")
	for _, d := range digits {
		g.line("\t%s = %d", exported(d.name), d.value)
	}
	g.line(")\n")
	return err
}

func emitSet(g *goSource, m *textForm) {
	g.comment("",
		fmt.Sprintf("%sSet returns the text of a set: a line feed, then each element followed by a line feed. "+
			"Elements must not contain line feeds.", m.goName()))
	g.line("func %sSet(elements []string) string { return \"\\n\" + strings.Join(elements, \"\\n\") + \"\\n\" }\n",
		m.goName())
	g.line("// In%sSet reports whether a set that %sSet returned has an element.", m.goName(), m.goName())
	g.line("func In%sSet(set, element string) bool { return strings.Contains(set, \"\\n\"+element+\"\\n\") }\n",
		m.goName())
}

func (m *textForm) parser() string { return "Parse" + m.goName() }

func emitTextDecoder(g *goSource, m *textForm) {
	g.comment("", fmt.Sprintf("%s reads `%s`. It returns false for any other text.", m.parser(), m.shown()))
	g.line("func %s(text string) (m %s, ok bool) {", m.parser(), m.goName())
	none := fmt.Sprintf("return %s{}, false", m.goName())
	parts := m.parts
	if x := parts[0]; x.param == "" {
		g.line("\ttext, ok = strings.CutPrefix(text, %q)\n\tif !ok {\n\t\t%s\n\t}", x.literal, none)
		parts = parts[1:]
	} else if x.mark != "" {
		g.line("\ttext, m.%s = strings.CutPrefix(text, %q)", x.goField(), x.mark)
		parts = parts[1:]
	}
	if x := parts[len(parts)-1]; x.param == "" {
		g.line("\ttext, ok = strings.CutSuffix(text, %q)\n\tif !ok {\n\t\t%s\n\t}", x.literal, none)
		parts = parts[:len(parts)-1]
	} else if x.mark != "" {
		g.line("\ttext, m.%s = strings.CutSuffix(text, %q)", x.goField(), x.mark)
		parts = parts[:len(parts)-1]
	}
	declared := ""
	for i := 0; i < len(parts); i += 2 {
		x, from := parts[i], "text"
		switch last := i == len(parts)-1; {
		case !last && parts[i+2].optional:
			g.line("\tpart%s, text, _ %s strings.Cut(text, %q)", declared, assignment(declared), parts[i+1].literal)
			from, declared = "part", " "
		case !last:
			g.line("\tpart%s, text, ok %s strings.Cut(text, %q)\n\tif !ok {\n\t\t%s\n\t}", declared,
				assignment(declared), parts[i+1].literal, none)
			from, declared = "part", " "
		case m.kind == formMessage && !x.isFree() && !x.optional:
			g.line("\ttext, _, _ = strings.Cut(text, \" \") // additions of later versions")
		}
		emitPartDecoder(g, x, from, none)
	}
	g.line("\treturn m, true\n}\n")
}

// assignment is the operator of the first or a further cut.
func assignment(declared string) string {
	if declared == "" {
		return ":="
	}
	return "="
}

func emitPartDecoder(g *goSource, x textPart, from, none string) {
	field := "m." + x.goField()
	parsed := func(call string) {
		g.line("\tif %s, ok = %s; !ok {\n\t\t%s\n\t}", field, call, none)
	}
	switch x.typ.kind {
	case kindInt:
		parsed(fmt.Sprintf("parseInt[%s](%s)", x.typ.goType, from))
	case kindFloat:
		parsed(fmt.Sprintf("parseFloat(%s)", from))
	case kindMillis:
		parsed(fmt.Sprintf("parseMillis(%s)", from))
	case kindTime:
		parsed(fmt.Sprintf("parseTime(%s)", from))
	case kindPartition:
		parsed(fmt.Sprintf("parsePartition(keyspace.FlowFamily, %s)", from))
	case kindAnyPartition:
		parsed(fmt.Sprintf("parseAnyPartition(%s)", from))
	default:
		if x.typ.goType == "string" {
			g.line("\t%s = %s", field, from)
		} else {
			g.line("\t%s = %s(%s)", field, x.typ.goType, from)
		}
	}
}
