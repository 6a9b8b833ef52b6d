package main

import (
	"fmt"
	"slices"
	"strings"
)

// emitShared writes the records, argument sets and statuses that several calls use.
func emitShared(l *library, plans []*plan) (string, error) {
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
	for _, a := range l.arguments {
		name := exported(a.name)
		var users []string
		for _, p := range plans {
			if slices.ContainsFunc(p.args, func(x argument) bool { return x.kind == argInclude && x.set == a.name }) {
				users = append(users, p.callType())
			}
		}
		g.comment("", fmt.Sprintf("%s holds arguments shared by %s.", name, strings.Join(users, ", ")))
		emitStruct(&g, name, a.fields)
		g.line("func (c *%s) encode(w *wire) {", name)
		for _, x := range a.fields {
			g.line("\t%s", encodeScalar("c."+fieldName(x.name, x.scalar), x))
		}
		g.line("}\n")
	}
	for _, r := range l.records {
		name := exported(r.name)
		g.comment("", fmt.Sprintf("%s is an element of replies or calls.", name))
		emitStruct(&g, name, r.fields)
		inReply := slices.ContainsFunc(plans, func(p *plan) bool { return usesRecord(p.replyFields(), r.name, l) })
		if inReply {
			emitStructDecode(&g, name, r.fields)
		}
		for _, n := range nestedStructs(name, r.fields) {
			g.comment("", fmt.Sprintf("%s is an element of a %s.", n.name, name))
			emitStruct(&g, n.name, n.fields)
			emitStructDecode(&g, n.name, n.fields)
		}
	}
	return g.file("enginerpc", "time")
}

func usesRecord(fields []field, name string, l *library) bool {
	for _, x := range fields {
		if x.record == name || usesRecord(x.inline, name, l) {
			return true
		}
		if r := l.record(x.record); r != nil && x.record != name && usesRecord(r.fields, name, l) {
			return true
		}
	}
	return false
}
