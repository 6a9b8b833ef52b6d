package gogen

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// sampleOfPart is an example value of a parameter. One that something ends contains no blank.
func sampleOfPart(m *header.Form, x header.TextPart) sample {
	switch {
	case x.Mark != "":
		return sample{"true", x.Mark}
	case x.Typ.Kind == header.KindPartition:
		return sample{"keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}", "7"}
	case x.Typ.Kind == header.KindAnyPartition:
		return sample{"keyspace.Partition{Family: keyspace.QuotaFamily, Index: 7}", "q7"}
	case x.Typ.Kind == header.KindTime:
		return sample{fmt.Sprintf("time.UnixMilli(%d)", sampleMillis), strconv.Itoa(sampleMillis)}
	case x.Typ.Kind == header.KindText && !(x.IsFree() && m.Parts[len(m.Parts)-1].Param == x.Param):
		return sample{strconv.Quote(x.Param + "-of-test"), x.Param + "-of-test"}
	}
	return sampleOf(x.Param, x.Typ.Name)
}

// sampleText is the text of the example values, put together here and not by generated code.
func sampleText(m *header.Form) string {
	var b strings.Builder
	for _, x := range m.Parts {
		if x.Param == "" {
			b.WriteString(x.Literal)
		} else {
			b.WriteString(sampleOfPart(m, x).wire)
		}
	}
	return b.String()
}

func goLiteral(m *header.Form) string {
	var fields []string
	for _, x := range m.Params() {
		fields = append(fields, formField(x)+": "+sampleOfPart(m, x).goExpr)
	}
	return formType(m) + "{" + strings.Join(fields, ", ") + "}"
}

// emitTextsTest writes for each message and text an example in both forms.
func emitTextsTest(l *header.Library) (string, error) {
	var g goSource
	g.line("func goldenTexts() []goldenText {\n\treturn []goldenText{")
	for _, m := range l.Forms {
		encode := fmt.Sprintf("func() (string, error) { return %s.Text(), nil }", goLiteral(m))
		parse := fmt.Sprintf("func(s string) (any, bool) { return %s(s) }", parser(m))
		switch checked, _ := checked(m); {
		case m.Kind == header.FormFrame || m.Kind == header.FormSet || m.Kind == header.FormDigits:
			continue
		case m.Kind == header.FormList:
			encode = fmt.Sprintf("func() (string, error) { return string(%s.AppendText(nil)), nil }", goLiteral(m))
			parse = "nil"
		case len(checked) > 0:
			encode = goLiteral(m) + ".Text"
		}
		g.line("\t\t{%q, %q,\n\t\t\t%s,\n\t\t\t%s,\n\t\t\t%s},", m.Name, sampleText(m), encode, parse, goLiteral(m))
	}
	g.line("\t}\n}\n")
	return g.file("enginerpc", "time")
}
