package gogen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
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
	g.comment("", fmt.Sprintf("%s holds the arguments of Conn.%s.", p.callType(), p.GoName))
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
	for _, a := range p.Args {
		if (a.Kind == header.ArgGroup || a.Kind == header.ArgColumns) && a.Set == "" {
			g.comment("", fmt.Sprintf("%s is an element of %s.%s.", p.groupType(a), p.callType(), goname.Exported(a.Name)))
			emitStruct(g, p.groupType(a), a.Fields)
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

func emitStruct(g *goSource, name string, fields []header.Field) {
	g.line("type %s struct {", name)
	for _, x := range fields {
		if x.Optional {
			g.comment("\t", sentence(goname.Field(x.Name, x.Scalar), header.OptionalNote(x)))
		}
		g.line("\t%s %s", goname.Field(x.Name, x.Scalar), valueType(name, x))
	}
	g.line("}\n")
}

func emitReplyType(g *goSource, p *plan) {
	name := p.replyType()
	g.comment("", fmt.Sprintf("%s is the answer to %s.", name, p.callType()))
	if p.Replies[0].Form == header.ReplyRaw {
		x := p.Replies[0].Fields[0]
		g.line("type %s struct {\n\t%s %s\n}\n", name, goname.Field(x.Name, x.Scalar), valueType(name, x))
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
		if in := presentIn(p, x.Name); in != "" {
			g.comment("\t", fmt.Sprintf("%s is set with %s.", goname.Field(x.Name, x.Scalar), in))
		}
		g.line("\t%s %s", goname.Field(x.Name, x.Scalar), valueType(p.GoName, x))
	}
	g.line("}\n")
	for _, n := range nestedStructs(p.GoName, p.replyFields()) {
		g.comment("", fmt.Sprintf("%s is an element of a %s.", n.name, name))
		emitStruct(g, n.name, n.fields)
	}
}

// presentIn names the statuses that carry a field, or "" when all do.
func presentIn(p *plan, name string) string {
	var with []string
	all := true
	for _, r := range p.Replies {
		if slices.ContainsFunc(r.Fields, func(x header.Field) bool { return x.Name == name }) {
			if !slices.Contains(with, statusConst(r.Status)) {
				with = append(with, statusConst(r.Status))
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

func statusConst(s string) string { return "Status" + goname.Exported(strings.ToLower(s)) }

func emitMethod(g *goSource, p *plan) {
	doc := fmt.Sprintf("%s runs %s. %s", p.GoName, p.WireName(), p.Summary)
	g.comment("", doc)
	var notes []string
	switch {
	case p.Flags["readonly"]:
		notes = append(notes, "It only reads.")
	case p.Flags["repeatable"]:
		notes = append(notes,
			"Sending it again with the same arguments is safe, which the engine does after a lost connection.")
	default:
		notes = append(notes,
			"After a lost connection its outcome may be unknown: the error then wraps ErrOutcomeUnknown.")
	}
	if len(p.Errors) > 0 {
		var codes []string
		for _, e := range p.Errors {
			codes = append(codes, errorName(e.Code))
		}
		notes = append(notes, "Error codes: "+strings.Join(codes, ", ")+".")
	}
	g.line("//")
	g.comment("", strings.Join(notes, " "))
	g.line("func (conn *Conn) %s(ctx context.Context, c %s) (%s, error) {", p.GoName, p.callType(), p.replyType())
	g.line("\treturn Do(ctx, conn, c)\n}\n")
	var set []string
	add := func(cond bool, s string) {
		if cond {
			set = append(set, s)
		}
	}
	add(p.Flags["readonly"], "readOnly: true")
	add(p.Flags["repeatable"] || p.Flags["readonly"], "repeatable: true")
	add(p.Composite(), "open: true")
	add(p.Replies[0].Form == header.ReplyBare, "form: formBare")
	add(p.Replies[0].Form == header.ReplyRaw, "form: formRaw")
	g.line("func (%s) info() callInfo {\n\treturn callInfo{%s}\n}\n", p.callType(),
		strings.Join(append([]string{fmt.Sprintf("name: %q", p.WireName())}, set...), ", "))
}

// emitShared writes the records, argument sets and statuses that several calls use.
func emitShared(l *header.Library, plans []*plan) (string, error) {
	var g goSource
	var statuses []string
	for _, p := range plans {
		for _, s := range p.statuses() {
			if s != "" && !slices.Contains(statuses, s) {
				statuses = append(statuses, s)
			}
		}
	}
	slices.Sort(statuses)
	g.line("// Statuses of successful replies.\nconst (")
	for _, s := range statuses {
		g.line("\t%s Status = %q", statusConst(s), s)
	}
	g.line(")\n")
	for _, a := range l.Arguments {
		name := goname.Exported(a.Name)
		var users []string
		for _, p := range plans {
			included := func(x header.Argument) bool { return x.Kind == header.ArgInclude && x.Set == a.Name }
			if slices.ContainsFunc(p.Args, included) {
				users = append(users, p.callType())
			}
		}
		g.comment("", fmt.Sprintf("%s holds arguments shared by %s.", name, strings.Join(users, ", ")))
		emitStruct(&g, name, a.Fields)
		g.line("func (c *%s) encode(w *wire) {", name)
		for _, x := range a.Fields {
			g.line("\t%s", encodeScalar("c."+goname.Field(x.Name, x.Scalar), x))
		}
		g.line("}\n")
	}
	for _, r := range l.Records {
		name := goname.Exported(r.Name)
		g.comment("", fmt.Sprintf("%s is an element of replies or calls.", name))
		emitStruct(&g, name, r.Fields)
		inReply := slices.ContainsFunc(plans, func(p *plan) bool { return usesRecord(p.replyFields(), r.Name, l) })
		if inReply {
			emitStructDecode(&g, name, r.Fields)
		}
		for _, n := range nestedStructs(name, r.Fields) {
			g.comment("", fmt.Sprintf("%s is an element of a %s.", n.name, name))
			emitStruct(&g, n.name, n.fields)
			emitStructDecode(&g, n.name, n.fields)
		}
	}
	return g.file("enginerpc", "time")
}

func usesRecord(fields []header.Field, name string, l *header.Library) bool {
	for _, x := range fields {
		if x.Record == name || usesRecord(x.Inline, name, l) {
			return true
		}
		if r := l.Record(x.Record); r != nil && x.Record != name && usesRecord(r.Fields, name, l) {
			return true
		}
	}
	return false
}
