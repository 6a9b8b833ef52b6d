package main

import (
	"fmt"
	"slices"
	"strings"
)

// emitCalls writes the call and reply types, codecs and methods of the functions of one folder of Lua files.
func emitCalls(plans []*plan) (string, error) {
	var g goSource
	for _, p := range plans {
		emitCallType(&g, p)
		emitReplyType(&g, p)
		emitMethod(&g, p)
		emitEncode(&g, p)
		emitDecode(&g, p)
	}
	return g.file("enginerpc", "context", "time")
}

func emitCallType(g *goSource, p *plan) {
	fields := p.fields()
	g.comment("", fmt.Sprintf("%s holds the arguments of Conn.%s.", p.callType(), p.goName))
	if len(fields) == 0 {
		g.line("type %s struct{}\n", p.callType())
	} else {
		g.line("type %s struct {", p.callType())
		for _, f := range fields {
			if f.doc != "" {
				g.comment("\t", sentence(f.name, f.doc))
			}
			if f.embed {
				g.line("\t%s", f.goType)
			} else {
				g.line("\t%s %s", f.name, f.goType)
			}
		}
		g.line("}\n")
	}
	for _, a := range p.args {
		if (a.kind == argGroup || a.kind == argColumns) && a.set == "" {
			g.comment("", fmt.Sprintf("%s is an element of %s.%s.", p.groupType(a), p.callType(), exported(a.name)))
			emitStruct(g, p.groupType(a), a.fields)
		}
	}
}

// sentence makes a field comment of a header's description.
func sentence(name, doc string) string {
	if strings.HasPrefix(doc, name+" ") {
		return doc
	}
	return name + ": " + strings.TrimSuffix(doc, ".") + "."
}

func emitStruct(g *goSource, name string, fields []field) {
	g.line("type %s struct {", name)
	for _, x := range fields {
		if x.optional {
			g.comment("\t", sentence(fieldName(x.name, x.scalar), optionalNote(x)))
		}
		g.line("\t%s %s", fieldName(x.name, x.scalar), valueType(name, x))
	}
	g.line("}\n")
}

func emitReplyType(g *goSource, p *plan) {
	name := p.replyType()
	g.comment("", fmt.Sprintf("%s is the answer to %s.", name, p.callType()))
	if p.replies[0].form == replyRaw {
		x := p.replies[0].fields[0]
		g.line("type %s struct {\n\t%s %s\n}\n", name, fieldName(x.name, x.scalar), valueType(name, x))
		return
	}
	g.line("type %s struct {", name)
	var consts []string
	for _, s := range p.statuses() {
		consts = append(consts, statusConst(s))
	}
	g.comment("\t", "Status is "+strings.Join(consts, " or ")+".")
	g.line("\tStatus Status")
	for _, x := range p.replyFields() {
		if in := presentIn(p, x.name); in != "" {
			g.comment("\t", fmt.Sprintf("%s is set with %s.", fieldName(x.name, x.scalar), in))
		}
		g.line("\t%s %s", fieldName(x.name, x.scalar), valueType(p.goName, x))
	}
	g.line("}\n")
	for _, n := range nestedStructs(p.goName, p.replyFields()) {
		g.comment("", fmt.Sprintf("%s is an element of a %s.", n.name, name))
		emitStruct(g, n.name, n.fields)
	}
}

// presentIn names the statuses that carry a field, or "" when all do.
func presentIn(p *plan, name string) string {
	var with []string
	all := true
	for _, r := range p.replies {
		if slices.ContainsFunc(r.fields, func(x field) bool { return x.name == name }) {
			if !slices.Contains(with, statusConst(r.status)) {
				with = append(with, statusConst(r.status))
			}
		} else {
			all = false
		}
	}
	if all {
		return ""
	}
	return strings.Join(with, " and ")
}

func statusConst(s string) string { return "Status" + exported(strings.ToLower(s)) }

func emitMethod(g *goSource, p *plan) {
	doc := fmt.Sprintf("%s runs %s. %s", p.goName, p.wireName(), p.summary)
	g.comment("", doc)
	var notes []string
	switch {
	case p.flags["readonly"]:
		notes = append(notes, "It only reads.")
	case p.flags["repeatable"]:
		notes = append(notes,
			"Sending it again with the same arguments is safe, which the engine does after a lost connection.")
	default:
		notes = append(notes,
			"After a lost connection its outcome may be unknown: the error then wraps ErrOutcomeUnknown.")
	}
	if len(p.errors) > 0 {
		var codes []string
		for _, e := range p.errors {
			codes = append(codes, errorName(e.code))
		}
		notes = append(notes, "Error codes: "+strings.Join(codes, ", ")+".")
	}
	g.line("//")
	g.comment("", strings.Join(notes, " "))
	g.line("func (conn *Conn) %s(ctx context.Context, c %s) (%s, error) {", p.goName, p.callType(), p.replyType())
	g.line("\treturn Do(ctx, conn, c)\n}\n")
	var set []string
	add := func(cond bool, s string) {
		if cond {
			set = append(set, s)
		}
	}
	add(p.flags["readonly"], "readOnly: true")
	add(p.flags["repeatable"] || p.flags["readonly"], "repeatable: true")
	add(p.composite(), "open: true")
	add(p.replies[0].form == replyBare, "form: formBare")
	add(p.replies[0].form == replyRaw, "form: formRaw")
	g.line("func (%s) info() callInfo {\n\treturn callInfo{%s}\n}\n", p.callType(),
		strings.Join(append([]string{fmt.Sprintf("name: %q", p.wireName())}, set...), ", "))
}
