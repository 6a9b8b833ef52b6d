package gogen

import (
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// formType is the Go type of a message or text.
func formType(m *header.Form) string {
	switch m.Kind {
	case header.FormMessage:
		return goname.Exported(m.Name) + "Message"
	case header.FormSet:
		return goname.Exported(m.Name)
	default:
		return goname.Exported(m.Name) + "Text"
	}
}

// emitTexts writes the Go types of messages and texts with the functions that encode and decode them.
func emitTexts(l *header.Library) (string, error) {
	var g goSource
	for _, m := range l.Forms {
		switch m.Kind {
		case header.FormFrame: // internal/enginerpc/texts.go has the only one
		case header.FormSet:
			emitSet(&g, m)
		case header.FormDigits:
			if err := emitDigits(&g, m); err != nil {
				return "", err
			}
		case header.FormList:
			emitTextStruct(&g, m, fmt.Sprintf("%s is an element `%s` of a list.", formType(m), shown(m)))
			emitAppend(&g, m)
		default:
			emitTextStruct(&g, m, fmt.Sprintf("%s is %s.", formType(m), description(m, l)))
			emitTextEncoder(&g, m)
			emitTextDecoder(&g, m)
		}
	}
	return g.file("enginerpc", "strconv", "strings", "time")
}

// shown is the pattern on one line.
func shown(m *header.Form) string { return strings.ReplaceAll(m.Pattern(), "\n", `\n`) }

func description(m *header.Form, l *header.Library) string {
	if m.Kind != header.FormMessage {
		return fmt.Sprintf("the text `%s`", shown(m))
	}
	var channels []string
	for _, name := range m.Channels {
		channels = append(channels, "`"+l.Template(name).Pattern()+"`")
	}
	return fmt.Sprintf("the message `%s` on %s", shown(m), strings.Join(channels, " and "))
}

func emitTextStruct(g *goSource, m *header.Form, doc string) {
	g.comment("", doc)
	g.line("type %s struct {", formType(m))
	for _, x := range m.Params() {
		g.line("\t%s %s", formField(x), x.Typ.GoType)
	}
	g.line("}\n")
}

func formField(x header.TextPart) string { return goname.Field(x.Param, x.Typ.Name) }

// checked lists the parameters whose value may contain its terminator, with the terminators.
func checked(m *header.Form) (list []header.TextPart, ends []string) {
	for i, x := range m.Parts {
		if behind := m.Terminator(i); x.IsFree() && behind != "" {
			list, ends = append(list, x), append(ends, behind)
		}
	}
	return list, ends
}

func emitTextEncoder(g *goSource, m *header.Form) {
	checked, ends := checked(m)
	result, tail := "string", ""
	if len(checked) > 0 {
		result, tail = "(string, error)", ", nil"
		g.comment("",
			fmt.Sprintf("Text returns the text that %s reads. It wraps ErrText if a value contains the text that ends it.", parser(m)))
	} else {
		g.comment("", fmt.Sprintf("Text returns the text that %s reads.", parser(m)))
	}
	g.line("func (m %s) Text() %s {", formType(m), result)
	for i, x := range checked {
		value := "m." + formField(x)
		if x.Typ.GoType != "string" {
			value = "string(" + value + ")"
		}
		g.line("\tif err := checkPart(%q, %q, %s, %q); err != nil {\n\t\treturn \"\", err\n\t}", m.Name, x.Param, value,
			ends[i])
	}
	parts, last := m.Parts, m.Parts[len(m.Parts)-1]
	if last.Optional {
		parts = parts[:len(parts)-2]
	}
	var terms []string
	for _, x := range parts {
		terms = append(terms, goTerm(x))
	}
	text := strings.Join(terms, " + ")
	if last.Optional {
		g.line("\tif m.%s == \"\" {\n\t\treturn %s%s\n\t}", formField(last), text, tail)
		text += fmt.Sprintf(" + %q + %s", m.Parts[len(m.Parts)-2].Literal, goTerm(last))
	}
	g.line("\treturn %s%s\n}\n", text, tail)
}

// goTerm is the expression of a part in a text.
func goTerm(x header.TextPart) string {
	value := "m." + formField(x)
	switch {
	case x.Param == "":
		return fmt.Sprintf("%q", x.Literal)
	case x.Mark != "":
		return fmt.Sprintf("markText(%s, %q)", value, x.Mark)
	}
	switch x.Typ.Kind {
	case header.KindInt:
		return "strconv.FormatInt(int64(" + value + "), 10)"
	case header.KindFloat:
		return "strconv.FormatFloat(" + value + ", 'f', -1, 64)"
	case header.KindMillis:
		return "strconv.FormatInt(" + value + ".Milliseconds(), 10)"
	case header.KindTime:
		return "strconv.FormatInt(" + value + ".UnixMilli(), 10)"
	case header.KindPartition:
		return "strconv.Itoa(int(" + value + ".Index))"
	case header.KindAnyPartition:
		return "partitionText(" + value + ")"
	}
	if x.Typ.GoType == "string" {
		return value
	}
	return "string(" + value + ")"
}

// emitAppend writes the encoder of an element of a list.
func emitAppend(g *goSource, m *header.Form) {
	g.line("// AppendText appends the element to a list.\nfunc (m %s) AppendText(list []byte) []byte {", formType(m))
	for _, x := range m.Parts {
		value := "m." + formField(x)
		switch {
		case x.Param == "":
			g.line("\tlist = append(list, %q...)", x.Literal)
		case x.Typ.Kind == header.KindInt:
			g.line("\tlist = strconv.AppendInt(list, int64(%s), 10)", value)
		case x.Typ.Kind == header.KindPartition:
			g.line("\tlist = strconv.AppendUint(list, uint64(%s.Index), 10)", value)
		default:
			g.line("\tlist = append(list, %s...)", goTerm(x))
		}
	}
	g.line("\treturn list\n}\n")
}

// emitDigits writes the digits as numbers, to be added to the character 0.
func emitDigits(g *goSource, m *header.Form) error {
	digits, err := m.Digits()
	g.comment("",
		fmt.Sprintf("The digits of the text %s, one character for each element: `%s`. Digits with + are added to another digit.",
			m.Name, shown(m)))
	g.line("const (")
	for _, d := range digits {
		g.line("\t%s = %d", goname.Exported(d.Name), d.Value)
	}
	g.line(")\n")
	return err
}

func emitSet(g *goSource, m *header.Form) {
	g.comment("",
		fmt.Sprintf("%sSet returns the text of a set: a line feed, then each element followed by a line feed. "+
			"Elements must not contain line feeds.", formType(m)))
	g.line("func %sSet(elements []string) string { return \"\\n\" + strings.Join(elements, \"\\n\") + \"\\n\" }\n",
		formType(m))
	g.line("// In%sSet reports whether a set that %sSet returned has an element.", formType(m), formType(m))
	g.line("func In%sSet(set, element string) bool { return strings.Contains(set, \"\\n\"+element+\"\\n\") }\n",
		formType(m))
}

func parser(m *header.Form) string { return "Parse" + formType(m) }

func emitTextDecoder(g *goSource, m *header.Form) {
	g.comment("", fmt.Sprintf("%s reads `%s`. It returns false for any other text.", parser(m), shown(m)))
	g.line("func %s(text string) (m %s, ok bool) {", parser(m), formType(m))
	none := fmt.Sprintf("return %s{}, false", formType(m))
	parts := m.Parts
	if x := parts[0]; x.Param == "" {
		g.line("\ttext, ok = strings.CutPrefix(text, %q)\n\tif !ok {\n\t\t%s\n\t}", x.Literal, none)
		parts = parts[1:]
	} else if x.Mark != "" {
		g.line("\ttext, m.%s = strings.CutPrefix(text, %q)", formField(x), x.Mark)
		parts = parts[1:]
	}
	if x := parts[len(parts)-1]; x.Param == "" {
		g.line("\ttext, ok = strings.CutSuffix(text, %q)\n\tif !ok {\n\t\t%s\n\t}", x.Literal, none)
		parts = parts[:len(parts)-1]
	} else if x.Mark != "" {
		g.line("\ttext, m.%s = strings.CutSuffix(text, %q)", formField(x), x.Mark)
		parts = parts[:len(parts)-1]
	}
	declared := ""
	for i := 0; i < len(parts); i += 2 {
		x, from := parts[i], "text"
		switch last := i == len(parts)-1; {
		case !last && parts[i+2].Optional:
			g.line("\tpart%s, text, _ %s strings.Cut(text, %q)", declared, assignment(declared), parts[i+1].Literal)
			from, declared = "part", " "
		case !last:
			g.line("\tpart%s, text, ok %s strings.Cut(text, %q)\n\tif !ok {\n\t\t%s\n\t}", declared,
				assignment(declared), parts[i+1].Literal, none)
			from, declared = "part", " "
		case m.Kind == header.FormMessage && !x.IsFree() && !x.Optional:
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

func emitPartDecoder(g *goSource, x header.TextPart, from, none string) {
	field := "m." + formField(x)
	parsed := func(call string) {
		g.line("\tif %s, ok = %s; !ok {\n\t\t%s\n\t}", field, call, none)
	}
	switch x.Typ.Kind {
	case header.KindInt:
		parsed(fmt.Sprintf("parseInt[%s](%s)", x.Typ.GoType, from))
	case header.KindFloat:
		parsed(fmt.Sprintf("parseFloat(%s)", from))
	case header.KindMillis:
		parsed(fmt.Sprintf("parseMillis(%s)", from))
	case header.KindTime:
		parsed(fmt.Sprintf("parseTime(%s)", from))
	case header.KindPartition:
		parsed(fmt.Sprintf("parsePartition(keyspace.FlowFamily, %s)", from))
	case header.KindAnyPartition:
		parsed(fmt.Sprintf("parseAnyPartition(%s)", from))
	default:
		if x.Typ.GoType == "string" {
			g.line("\t%s = %s", field, from)
		} else {
			g.line("\t%s = %s(%s)", field, x.Typ.GoType, from)
		}
	}
}
