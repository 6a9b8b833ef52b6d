package gogen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

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
