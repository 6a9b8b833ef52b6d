package gogen

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// sample is an example value of a scalar type: as Go source and as it travels.
type sample struct {
	goExpr string
	wire   string
}

const (
	samplePrefix    = "ff"
	sampleTag       = "{fp:7}"
	sampleUUID      = "550e8400-e29b-41d4-a716-446655440000"
	sampleExecution = sampleTag + ":" + sampleUUID
	sampleMillis    = 1795188498438
)

var sampleTags = map[string]string{
	header.FlowFamily: sampleTag, "keyspace.BudgetFamily": "{b:7}", "keyspace.QuotaFamily": "{q:7}",
}

// sampleOf makes a value that shows where it came from. Bytes are not valid UTF-8.
func sampleOf(name, typ string) sample {
	t, _ := header.ScalarNamed(typ)
	switch t.Kind {
	case header.KindBytes:
		s := "\x00\xff\r\n" + name
		return sample{"[]byte(" + strconv.Quote(s) + ")", s}
	case header.KindInt:
		n := len(name) + 1
		return sample{strconv.Itoa(n), strconv.Itoa(n)}
	case header.KindFloat:
		return sample{"0.25", "0.25"}
	case header.KindMillis:
		return sample{"1500 * time.Millisecond", "1500"}
	case header.KindTime:
		return sample{fmt.Sprintf("time.UnixMilli(%d).UTC()", sampleMillis), strconv.Itoa(sampleMillis)}
	case header.KindBool:
		return sample{"true", "1"}
	}
	if typ == "execution_id" || typ == "any_execution_id" {
		return sample{strconv.Quote(sampleExecution), sampleExecution}
	}
	s := name + " of test"
	return sample{strconv.Quote(s), s}
}

// emitGolden writes the wire tests: for each function the exact KEYS and ARGV of one call, and the decoding of
// each reply. The expected values are computed here from the headers, not by the generated codecs.
func emitGolden(plans []*plan) (string, error) {
	var g goSource
	g.line("func goldenCalls() []goldenCall {\n\treturn []goldenCall{")
	for _, p := range plans {
		g.line("\t\t{%q, func(k Keys) (string, []string, []string, error) { return Wire(k, %s) },", p.WireName(), goldenLiteral(p))
		g.line("\t\t\t%s,\n\t\t\t%s},", stringSlice(goldenKeys(p)), stringSlice(goldenArgs(p)))
	}
	g.line("\t}\n}\n")
	g.line("func goldenReplies() []goldenReply {\n\treturn []goldenReply{")
	for _, p := range plans {
		for _, r := range p.Replies {
			value, want := goldenReply(p, r)
			g.line("\t\t{%q, %s,\n\t\t\tfunc(m message) (any, error) { return decodeReply(%s{}.info(), m, %s{}.decode) },\n\t\t\t%s},",
				strings.TrimSpace(p.WireName()+" "+r.Status), value, p.callType(), p.callType(), want)
		}
	}
	g.line("\t}\n}\n")
	g.line("func bytesCalls() []bytesCall {\n\treturn []bytesCall{")
	for _, p := range plans {
		emitBytesCalls(&g, p)
	}
	g.line("\t}\n}\n")
	g.line("func replyDecoders() []replyDecoder {\n\treturn []replyDecoder{")
	for _, p := range plans {
		g.line("\t\t{%q, func(m message) error {\n\t\t\t_, err := decodeReply(%s{}.info(), m, %s{}.decode)\n\t\t\treturn err\n\t\t}},",
			p.WireName(), p.callType(), p.callType())
	}
	g.line("\t}\n}\n")
	return g.file("enginerpc", "time")
}

func stringSlice(list []string) string {
	if len(list) == 0 {
		return "nil"
	}
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return "[]string{" + strings.Join(quoted, ", ") + "}"
}

// goldenSample is the example value of an argument or key parameter, by wire name.
func (p *plan) goldenSample(source string) sample {
	for _, a := range p.FlatArgs() {
		if a.Name == source {
			return sampleOf(a.Name, a.Scalar)
		}
	}
	return sampleOf(source, p.extraKind[source].Name)
}

func goldenLiteral(p *plan) string {
	var parts []string
	add := func(name, value string) { parts = append(parts, name+": "+value) }
	if p.tagArg == "" && !p.keyless {
		add("Partition", "keyspace.Partition{Family: "+p.family()+", Index: 7}")
	}
	for _, e := range p.extras {
		s := sampleOf(e.wire, p.extraKind[e.wire].Name)
		if p.slices[e.wire] {
			add(e.name, e.goType+"{"+s.goExpr+"}")
		} else {
			add(e.name, s.goExpr)
		}
	}
	for _, a := range p.Args {
		switch a.Kind {
		case header.ArgScalar:
			add(goname.Field(a.Name, a.Field.Scalar), sampleOf(a.Name, a.Field.Scalar).goExpr)
		case header.ArgInclude:
			add(goname.Exported(a.Set), goname.Exported(a.Set)+structLiteral(a.Fields))
		case header.ArgRest:
			t, _ := header.ScalarNamed(a.Field.Scalar)
			add(goname.Field(a.Name, t.Name), fmt.Sprintf("[]%s{%s, %s}", t.GoType,
				sampleOf(a.Name, t.Name).goExpr, sampleOf(a.Name+"2", t.Name).goExpr))
		case header.ArgGroup, header.ArgColumns:
			add(goname.Exported(a.Name), fmt.Sprintf("[]%s{%s, %s}", p.groupType(a), structLiteral(a.Fields),
				structLiteral(a.Fields)))
		}
	}
	return p.callType() + "{" + strings.Join(parts, ", ") + "}"
}

func structLiteral(fields []header.Field) string {
	var parts []string
	for _, x := range fields {
		parts = append(parts, goname.Field(x.Name, x.Scalar)+": "+sampleOf(x.Name, x.Scalar).goExpr)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func goldenKeys(p *plan) []string {
	var out []string
	for _, k := range p.Keys {
		count := 1
		if k.Many {
			count = p.goldenManyCount(k)
		}
		for i := range count {
			text := samplePrefix + ":"
			for _, part := range p.lib.Template(k.Template).Parts {
				switch {
				case part.Param == "":
					text += part.Literal
				case part.Param == "tag":
					text += sampleTags[p.family()]
				default:
					text += p.goldenKeyValue(k.Source(part.Param), i)
				}
			}
			out = append(out, text)
		}
	}
	return out
}

// goldenManyCount is the number of elements that the example has for a @keys entry.
func (p *plan) goldenManyCount(k header.Key) int {
	for _, param := range p.lib.Template(k.Template).Params() {
		if p.slices[k.Source(param)] {
			return 1
		}
	}
	return 2
}

// goldenKeyValue is the value of a key parameter; i counts the keys of one @keys entry.
func (p *plan) goldenKeyValue(source string, i int) string {
	base, sub, dotted := strings.Cut(source, ".")
	for _, a := range p.Args {
		if a.Name != base {
			continue
		}
		if a.Kind == header.ArgRest {
			name := a.Name
			if i > 0 {
				name += "2"
			}
			return sampleOf(name, a.Field.Scalar).wire
		}
		if dotted {
			for _, x := range a.Fields {
				if x.Name == sub {
					return sampleOf(x.Name, x.Scalar).wire
				}
			}
		}
	}
	return p.goldenSample(source).wire
}

func goldenArgs(p *plan) []string {
	var out []string
	for _, a := range p.Args {
		switch a.Kind {
		case header.ArgScalar:
			out = append(out, sampleOf(a.Name, a.Field.Scalar).wire)
		case header.ArgInclude:
			for _, x := range a.Fields {
				out = append(out, sampleOf(x.Name, x.Scalar).wire)
			}
		case header.ArgRest:
			out = append(out, sampleOf(a.Name, a.Field.Scalar).wire, sampleOf(a.Name+"2", a.Field.Scalar).wire)
		case header.ArgGroup:
			out = append(out, "2")
			for range 2 {
				for _, x := range a.Fields {
					out = append(out, sampleOf(x.Name, x.Scalar).wire)
				}
			}
		case header.ArgColumns:
			out = append(out, "2")
			for _, x := range a.Fields {
				for range 2 {
					out = append(out, sampleOf(x.Name, x.Scalar).wire)
				}
			}
		}
	}
	return out
}

// goldenReply is the example of one reply as a value of the test's reply builder, and the value that it decodes to.
func goldenReply(p *plan, r header.Reply) (value, want string) {
	var items, parts []string
	for _, x := range r.Fields {
		wires, expr := goldenValue(p.lib, p.GoName, x)
		items = append(items, wires...)
		parts = append(parts, goname.Field(x.Name, x.Scalar)+": "+expr)
	}
	switch r.Form {
	case header.ReplyRaw:
		return items[0], p.replyType() + "{" + parts[0] + "}"
	case header.ReplyBare:
		items = append([]string{strconv.Quote(r.Status)}, items...)
	default:
		items = append([]string{"1", strconv.Quote(r.Status)}, items...)
	}
	parts = append([]string{"Status: " + statusConst(r.Status)}, parts...)
	return "[]any{" + strings.Join(items, ", ") + "}", p.replyType() + "{" + strings.Join(parts, ", ") + "}"
}

// goldenValue is the example of one reply field: its values on the wire and its Go expression.
func goldenValue(l *header.Library, owner string, x header.Field) (wires []string, expr string) {
	switch x.Shape {
	case header.Scalar:
		s := sampleOf(x.Name, x.Scalar)
		return []string{strconv.Quote(s.wire)}, s.goExpr
	case header.PairsOf:
		return []string{`[]any{"name", "\x00value"}`}, `[]Pair{{"name", []byte("\x00value")}}`
	}
	typ := valueType(owner, x)
	if x.Scalar != "" {
		s := sampleOf(x.Name, x.Scalar)
		wires, expr = []string{strconv.Quote(s.wire), strconv.Quote(s.wire)}, fmt.Sprintf("%s{%s, %s}", typ, s.goExpr,
			s.goExpr)
	} else {
		inner, innerOwner := x.Inline, elementType(owner, x)
		if r := l.Record(x.Record); r != nil {
			inner = r.Fields
		}
		var parts, flat []string
		for _, f := range inner {
			w, e := goldenValue(l, innerOwner, f)
			flat = append(flat, w...)
			parts = append(parts, goname.Field(f.Name, f.Scalar)+": "+e)
		}
		element := "{" + strings.Join(parts, ", ") + "}"
		expr = fmt.Sprintf("%s{%s, %s}", typ, element, element)
		if x.Shape == header.ListOf {
			one := "[]any{" + strings.Join(flat, ", ") + "}"
			wires = []string{one, one}
		} else {
			wires = append(append(wires, flat...), flat...)
		}
	}
	switch x.Shape {
	case header.ListOf:
		return []string{"[]any{" + strings.Join(wires, ", ") + "}"}, expr
	case header.GroupOf:
		return append([]string{`"2"`}, wires...), expr
	}
	return wires, expr
}

// emitBytesCalls writes one case per bytes argument: where a payload must arrive unchanged.
func emitBytesCalls(g *goSource, p *plan) {
	at := 0
	for _, a := range p.Args {
		if a.Kind == header.ArgScalar {
			if t, _ := header.ScalarNamed(a.Field.Scalar); t.Kind == header.KindBytes {
				g.line("\t\t{%q, %d, func(k Keys, b []byte) ([]string, error) {\n\t\t\tc := %s\n\t\t\tc.%s = b\n\t\t\t_, _, args, err := Wire(k, c)\n\t\t\treturn args, err\n\t\t}},",
					p.WireName()+" "+a.Name, at, goldenLiteral(p), goname.Field(a.Name, t.Name))
			}
			at++
			continue
		}
		if a.Kind != header.ArgInclude {
			return
		}
		at += len(a.Fields)
	}
}

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
