package main

import (
	"fmt"
	"strconv"
	"strings"
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
	flowFamily: sampleTag, "keyspace.BudgetFamily": "{b:7}", "keyspace.QuotaFamily": "{q:7}",
}

// sampleOf makes a value that shows where it came from. Bytes are not valid UTF-8.
func sampleOf(name, typ string) sample {
	t, _ := scalarNamed(typ)
	switch t.kind {
	case kindBytes:
		s := "\x00\xff\r\n" + name
		return sample{"[]byte(" + strconv.Quote(s) + ")", s}
	case kindInt:
		n := len(name) + 1
		return sample{strconv.Itoa(n), strconv.Itoa(n)}
	case kindFloat:
		return sample{"0.25", "0.25"}
	case kindMillis:
		return sample{"1500 * time.Millisecond", "1500"}
	case kindTime:
		return sample{fmt.Sprintf("time.UnixMilli(%d).UTC()", sampleMillis), strconv.Itoa(sampleMillis)}
	case kindBool:
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
		g.line("\t\t{%q, func(k Keys) (string, []string, []string, error) { return Wire(k, %s) },", p.wireName(), goldenLiteral(p))
		g.line("\t\t\t%s,\n\t\t\t%s},", stringSlice(goldenKeys(p)), stringSlice(goldenArgs(p)))
	}
	g.line("\t}\n}\n")
	g.line("func goldenReplies() []goldenReply {\n\treturn []goldenReply{")
	for _, p := range plans {
		for _, r := range p.replies {
			value, want := goldenReply(p, r)
			g.line("\t\t{%q, %s,\n\t\t\tfunc(m message) (any, error) { return decodeReply(%s{}.info(), m, %s{}.decode) },\n\t\t\t%s},",
				strings.TrimSpace(p.wireName()+" "+r.status), value, p.callType(), p.callType(), want)
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
			p.wireName(), p.callType(), p.callType())
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
	for _, a := range p.flatArgs() {
		if a.name == source {
			return sampleOf(a.name, a.scalar)
		}
	}
	return sampleOf(source, p.extraKind[source].name)
}

func goldenLiteral(p *plan) string {
	var parts []string
	add := func(name, value string) { parts = append(parts, name+": "+value) }
	if p.tagArg == "" && !p.keyless {
		add("Partition", "keyspace.Partition{Family: "+p.family()+", Index: 7}")
	}
	for _, e := range p.extras {
		s := sampleOf(e.wire, p.extraKind[e.wire].name)
		if p.slices[e.wire] {
			add(e.name, e.goType+"{"+s.goExpr+"}")
		} else {
			add(e.name, s.goExpr)
		}
	}
	for _, a := range p.args {
		switch a.kind {
		case argScalar:
			add(fieldName(a.name, a.field.scalar), sampleOf(a.name, a.field.scalar).goExpr)
		case argInclude:
			add(exported(a.set), exported(a.set)+structLiteral(a.fields))
		case argRest:
			t, _ := scalarNamed(a.field.scalar)
			add(fieldName(a.name, t.name), fmt.Sprintf("[]%s{%s, %s}", t.goType,
				sampleOf(a.name, t.name).goExpr, sampleOf(a.name+"2", t.name).goExpr))
		case argGroup, argColumns:
			add(exported(a.name), fmt.Sprintf("[]%s{%s, %s}", p.groupType(a), structLiteral(a.fields),
				structLiteral(a.fields)))
		}
	}
	return p.callType() + "{" + strings.Join(parts, ", ") + "}"
}

func structLiteral(fields []field) string {
	var parts []string
	for _, x := range fields {
		parts = append(parts, fieldName(x.name, x.scalar)+": "+sampleOf(x.name, x.scalar).goExpr)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func goldenKeys(p *plan) []string {
	var out []string
	for _, k := range p.keys {
		count := 1
		if k.many {
			count = p.goldenManyCount(k)
		}
		for i := range count {
			text := samplePrefix + ":"
			for _, part := range p.lib.template(k.template).parts {
				switch {
				case part.param == "":
					text += part.literal
				case part.param == "tag":
					text += sampleTags[p.family()]
				default:
					text += p.goldenKeyValue(k.source(part.param), i)
				}
			}
			out = append(out, text)
		}
	}
	return out
}

// goldenManyCount is the number of elements that the example has for a @keys entry.
func (p *plan) goldenManyCount(k key) int {
	for _, param := range p.lib.template(k.template).params() {
		if p.slices[k.source(param)] {
			return 1
		}
	}
	return 2
}

// goldenKeyValue is the value of a key parameter; i counts the keys of one @keys entry.
func (p *plan) goldenKeyValue(source string, i int) string {
	base, sub, dotted := strings.Cut(source, ".")
	for _, a := range p.args {
		if a.name != base {
			continue
		}
		if a.kind == argRest {
			name := a.name
			if i > 0 {
				name += "2"
			}
			return sampleOf(name, a.field.scalar).wire
		}
		if dotted {
			for _, x := range a.fields {
				if x.name == sub {
					return sampleOf(x.name, x.scalar).wire
				}
			}
		}
	}
	return p.goldenSample(source).wire
}

func goldenArgs(p *plan) []string {
	var out []string
	for _, a := range p.args {
		switch a.kind {
		case argScalar:
			out = append(out, sampleOf(a.name, a.field.scalar).wire)
		case argInclude:
			for _, x := range a.fields {
				out = append(out, sampleOf(x.name, x.scalar).wire)
			}
		case argRest:
			out = append(out, sampleOf(a.name, a.field.scalar).wire, sampleOf(a.name+"2", a.field.scalar).wire)
		case argGroup:
			out = append(out, "2")
			for range 2 {
				for _, x := range a.fields {
					out = append(out, sampleOf(x.name, x.scalar).wire)
				}
			}
		case argColumns:
			out = append(out, "2")
			for _, x := range a.fields {
				for range 2 {
					out = append(out, sampleOf(x.name, x.scalar).wire)
				}
			}
		}
	}
	return out
}

// goldenReply is the example of one reply as a value of the test's reply builder, and the value that it decodes to.
func goldenReply(p *plan, r reply) (value, want string) {
	var items, parts []string
	for _, x := range r.fields {
		wires, expr := goldenValue(p.lib, p.goName, x)
		items = append(items, wires...)
		parts = append(parts, fieldName(x.name, x.scalar)+": "+expr)
	}
	switch r.form {
	case replyRaw:
		return items[0], p.replyType() + "{" + parts[0] + "}"
	case replyBare:
		items = append([]string{strconv.Quote(r.status)}, items...)
	default:
		items = append([]string{"1", strconv.Quote(r.status)}, items...)
	}
	parts = append([]string{"Status: " + statusConst(r.status)}, parts...)
	return "[]any{" + strings.Join(items, ", ") + "}", p.replyType() + "{" + strings.Join(parts, ", ") + "}"
}

// goldenValue is the example of one reply field: its values on the wire and its Go expression.
func goldenValue(l *library, owner string, x field) (wires []string, expr string) {
	switch x.shape {
	case scalar:
		s := sampleOf(x.name, x.scalar)
		return []string{strconv.Quote(s.wire)}, s.goExpr
	case pairsOf:
		return []string{`[]any{"name", "\x00value"}`}, `[]Pair{{"name", []byte("\x00value")}}`
	}
	typ := valueType(owner, x)
	if x.scalar != "" {
		s := sampleOf(x.name, x.scalar)
		wires, expr = []string{strconv.Quote(s.wire), strconv.Quote(s.wire)}, fmt.Sprintf("%s{%s, %s}", typ, s.goExpr,
			s.goExpr)
	} else {
		inner, innerOwner := x.inline, elementType(owner, x)
		if r := l.record(x.record); r != nil {
			inner = r.fields
		}
		var parts, flat []string
		for _, f := range inner {
			w, e := goldenValue(l, innerOwner, f)
			flat = append(flat, w...)
			parts = append(parts, fieldName(f.name, f.scalar)+": "+e)
		}
		element := "{" + strings.Join(parts, ", ") + "}"
		expr = fmt.Sprintf("%s{%s, %s}", typ, element, element)
		if x.shape == listOf {
			one := "[]any{" + strings.Join(flat, ", ") + "}"
			wires = []string{one, one}
		} else {
			wires = append(append(wires, flat...), flat...)
		}
	}
	switch x.shape {
	case listOf:
		return []string{"[]any{" + strings.Join(wires, ", ") + "}"}, expr
	case groupOf:
		return append([]string{`"2"`}, wires...), expr
	}
	return wires, expr
}

// emitBytesCalls writes one case per bytes argument: where a payload must arrive unchanged.
func emitBytesCalls(g *goSource, p *plan) {
	at := 0
	for _, a := range p.args {
		if a.kind == argScalar {
			if t, _ := scalarNamed(a.field.scalar); t.kind == kindBytes {
				g.line("\t\t{%q, %d, func(k Keys, b []byte) ([]string, error) {\n\t\t\tc := %s\n\t\t\tc.%s = b\n\t\t\t_, _, args, err := Wire(k, c)\n\t\t\treturn args, err\n\t\t}},",
					p.wireName()+" "+a.name, at, goldenLiteral(p), fieldName(a.name, t.name))
			}
			at++
			continue
		}
		if a.kind != argInclude {
			return
		}
		at += len(a.fields)
	}
}
