package main

import (
	"fmt"
	"strconv"
	"strings"
)

// sampleOfPart is an example value of a parameter. One that something ends contains no blank.
func sampleOfPart(m *textForm, x textPart) sample {
	switch {
	case x.mark != "":
		return sample{"true", x.mark}
	case x.typ.kind == kindPartition:
		return sample{"keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}", "7"}
	case x.typ.kind == kindAnyPartition:
		return sample{"keyspace.Partition{Family: keyspace.QuotaFamily, Index: 7}", "q7"}
	case x.typ.kind == kindTime:
		return sample{fmt.Sprintf("time.UnixMilli(%d)", sampleMillis), strconv.Itoa(sampleMillis)}
	case x.typ.kind == kindText && !(x.isFree() && m.parts[len(m.parts)-1].param == x.param):
		return sample{strconv.Quote(x.param + "-of-test"), x.param + "-of-test"}
	}
	return sampleOf(x.param, x.typ.name)
}

// sampleText is the text of the example values, put together here and not by generated code.
func (m *textForm) sampleText() string {
	var b strings.Builder
	for _, x := range m.parts {
		if x.param == "" {
			b.WriteString(x.literal)
		} else {
			b.WriteString(sampleOfPart(m, x).wire)
		}
	}
	return b.String()
}

func (m *textForm) goLiteral() string {
	var fields []string
	for _, x := range m.params() {
		fields = append(fields, x.goField()+": "+sampleOfPart(m, x).goExpr)
	}
	return m.goName() + "{" + strings.Join(fields, ", ") + "}"
}

// emitTextsTest writes for each message and text an example in both forms.
func emitTextsTest(l *library) (string, error) {
	var g goSource
	g.line("func goldenTexts() []goldenText {\n\treturn []goldenText{")
	for _, m := range l.forms {
		encode := fmt.Sprintf("func() (string, error) { return %s.Text(), nil }", m.goLiteral())
		parse := fmt.Sprintf("func(s string) (any, bool) { return %s(s) }", m.parser())
		switch checked, _ := m.checked(); {
		case m.kind == formFrame || m.kind == formSet || m.kind == formDigits:
			continue
		case m.kind == formList:
			encode = fmt.Sprintf("func() (string, error) { return string(%s.AppendText(nil)), nil }", m.goLiteral())
			parse = "nil"
		case len(checked) > 0:
			encode = m.goLiteral() + ".Text"
		}
		g.line("\t\t{%q, %q,\n\t\t\t%s,\n\t\t\t%s,\n\t\t\t%s},", m.name, m.sampleText(), encode, parse, m.goLiteral())
	}
	g.line("\t}\n}\n")
	return g.file("enginerpc", "time")
}
