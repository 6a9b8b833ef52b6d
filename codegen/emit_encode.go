package main

import (
	"fmt"
	"slices"
	"strings"
)

func emitEncode(g *goSource, p *plan) {
	if p.keyless && len(p.args) == 0 {
		g.line("func (%s) encode(*wire) {}\n", p.callType())
		return
	}
	g.line("func (c %s) encode(w *wire) {", p.callType())
	fixedKeys, fixedArgs := len(p.keys), 0
	var grow []string
	for _, k := range p.keys {
		if k.many {
			fixedKeys--
		}
	}
	for _, a := range p.args {
		switch a.kind {
		case argScalar:
			fixedArgs++
		case argInclude:
			fixedArgs += len(a.fields)
		case argGroup, argColumns:
			fixedArgs++
			grow = append(grow, fmt.Sprintf("%d*len(c.%s)", len(a.fields), exported(a.name)))
		case argRest:
			t, _ := scalarNamed(a.field.scalar)
			grow = append(grow, fmt.Sprintf("len(c.%s)", fieldName(a.name, t.name)))
		}
	}
	g.line("\tw.reserve(%d, %s)", fixedKeys, strings.Join(append([]string{fmt.Sprint(fixedArgs)}, grow...), "+"))
	emitTag(g, p)
	for _, k := range p.keys {
		emitKey(g, p, k)
	}
	for _, a := range p.args {
		emitArgument(g, p, a)
	}
	g.line("}\n")
}

// emitTag fixes the hash tag of the call and checks that every execution id it names is of that partition.
func emitTag(g *goSource, p *plan) {
	if p.keyless {
		return
	}
	if p.tagArg == "" {
		g.line("\tw.partition(c.Partition, %s)", p.family())
	} else {
		expr, _ := p.access(p.tagArg)
		g.line("\tw.execution(%q, %s)", p.tagArg, expr)
	}
	need := map[string]bool{}
	for _, k := range p.keys {
		t := p.lib.template(k.template)
		for _, param := range t.params() {
			source := k.source(param)
			if k.optional || k.many || need[source] || source == p.tagArg {
				continue
			}
			need[source] = true
			expr, typ := p.access(source)
			switch {
			case typ.name == "execution_id" && t.tagFromExecution():
				g.line("\tw.belongs(%q, %s)", source, expr)
			case typ.kind == kindText:
				g.line("\tw.need(%q, %s)", source, asString(expr, typ))
			}
		}
	}
	if !p.composite() {
		return
	}
	for _, a := range p.flatArgs() {
		if a.scalar == "execution_id" && !need[a.name] {
			expr, _ := p.access(a.name)
			if a.optional {
				g.line("\tif %s != \"\" {\n\t\tw.belongs(%q, %s)\n\t}", expr, a.name, expr)
			} else {
				g.line("\tw.belongs(%q, %s)", a.name, expr)
			}
		}
	}
}

func asString(expr string, t scalarType) string {
	if t.goType == "string" {
		return expr
	}
	return "string(" + expr + ")"
}

// keyCall is the builder call for a key; each gives the expression of a parameter.
func keyCall(p *plan, k key, each func(source string) (string, scalarType)) (expr string, texts []string) {
	t := p.lib.template(k.template)
	args := []string{"w.tag"}
	for _, param := range t.params() {
		value, have := each(k.source(param))
		want := paramType(param)
		if want.kind == kindText {
			texts = append(texts, value)
		}
		if have.goType != want.goType {
			value = want.goType + "(" + value + ")"
		}
		args = append(args, value)
	}
	return fmt.Sprintf("w.keys.%s(%s)", keyMethod(t), strings.Join(args, ", ")), texts
}

func emitKey(g *goSource, p *plan, k key) {
	if k.many {
		t := p.lib.template(k.template)
		var list, element string
		var typ scalarType
		each := func(source string) (string, scalarType) { return p.access(source) }
		for _, param := range t.params() {
			source := k.source(param)
			base, sub, dotted := strings.Cut(source, ".")
			for _, a := range p.args {
				if a.name != base || a.kind == argScalar || a.kind == argInclude {
					continue
				}
				if a.kind == argRest {
					typ, _ = scalarNamed(a.field.scalar)
					list, element = "c."+fieldName(a.name, typ.name), source
				} else if dotted {
					i := slices.IndexFunc(a.fields, func(x field) bool { return x.name == sub })
					if i >= 0 {
						typ, _ = scalarNamed(a.fields[i].scalar)
						list, element = "c."+exported(a.name), source
					}
				}
			}
			if p.slices[source] {
				typ = p.extraKind[source]
				list, element = "c."+fieldName(source, typ.name), source
			}
		}
		expr, _ := keyCall(p, k, func(source string) (string, scalarType) {
			if source != element {
				return each(source)
			}
			if _, sub, ok := strings.Cut(source, "."); ok {
				return "x." + fieldName(sub, typ.name), typ
			}
			return "x", typ
		})
		g.line("\tfor _, x := range %s {\n\t\tw.key(%s)\n\t}", list, expr)
		return
	}
	expr, texts := keyCall(p, k, p.access)
	if k.optional && len(texts) > 0 {
		var conds []string
		for _, t := range texts {
			conds = append(conds, t+` == ""`)
		}
		g.line("\tif %s {\n\t\tw.noKey()\n\t} else {\n\t\tw.key(%s)\n\t}", strings.Join(conds, " || "), expr)
		return
	}
	if k.chosenBy != "" {
		by, typ := p.access(k.chosenBy)
		params := append(append([]string{"w.tag"}, texts...), asString(by, typ))
		g.line("\tw.key(w.keys.%sBy(%s))", k.role, strings.Join(params, ", "))
		return
	}
	g.line("\tw.key(%s)", expr)
}

func emitArgument(g *goSource, p *plan, a argument) {
	switch a.kind {
	case argScalar:
		g.line("\t%s", encodeScalar("c."+fieldName(a.name, a.field.scalar), a.field))
	case argInclude:
		g.line("\tc.%s.encode(w)", exported(a.set))
	case argRest:
		g.line("\tfor _, x := range c.%s {\n\t\t%s\n\t}", fieldName(a.name, a.field.scalar), encodeScalar("x", a.field))
	case argGroup:
		list := "c." + exported(a.name)
		g.line("\tw.int(int64(len(%s)))\n\tfor i := range %s {\n\t\tx := &%s[i]", list, list, list)
		for _, x := range a.fields {
			switch {
			case p.composite() && x.scalar == "execution_id":
				g.line("\t\tw.belongs(%q, x.%s)", a.name+"."+x.name, fieldName(x.name, x.scalar))
			case x.scalar == "any_execution_id":
				g.line("\t\tw.anyExecution(%q, x.%s)", a.name+"."+x.name, fieldName(x.name, x.scalar))
			}
			g.line("\t\t%s", encodeScalar("x."+fieldName(x.name, x.scalar), x))
		}
		g.line("\t}")
	case argColumns:
		list := "c." + exported(a.name)
		g.line("\tw.int(int64(len(%s)))", list)
		for _, x := range a.fields {
			g.line("\tfor _, x := range %s {\n\t\t%s\n\t}", list, encodeScalar("x."+fieldName(x.name, x.scalar), x))
		}
	}
}

func encodeScalar(expr string, x field) string {
	t, _ := scalarNamed(x.scalar)
	if x.fallback != "" {
		return encodeOr(expr, x, t)
	}
	switch t.kind {
	case kindText:
		return "w.text(" + asString(expr, t) + ")"
	case kindBytes:
		return "w.bytes(" + expr + ")"
	case kindTime:
		if x.isCallersClock() {
			return "w.timeOrNow(" + expr + ")"
		}
		return "w.time(" + expr + ")"
	case kindBool:
		return "w.bool(" + expr + ")"
	}
	verb := map[valueKind]string{kindInt: "int", kindFloat: "float", kindMillis: "millis"}[t.kind]
	// The first lease has epoch 1, so 0 is none: an operator override names no lease at all.
	if x.optional || x.scalar == "lease_epoch" {
		verb = "optional" + strings.ToUpper(verb[:1]) + verb[1:]
	}
	if t.kind == kindInt && t.goType != "int64" {
		expr = "int64(" + expr + ")"
	}
	return "w." + verb + "(" + expr + ")"
}

// isCallersClock reports whether a field is the present time by the caller's clock. Our library does without it, but
// other implementations of the contract store the value, or fail on a text that is not a number.
func (f field) isCallersClock() bool { return f.name == "now_ms" && f.optional }

// encodeOr encodes an optional argument that is sent as its fallback where it is not set.
func encodeOr(expr string, x field, t scalarType) string {
	switch t.kind {
	case kindText:
		return fmt.Sprintf("w.textOr(%s, %q)", asString(expr, t), x.fallback)
	case kindMillis:
		return fmt.Sprintf("w.millisOr(%s, %q)", expr, x.fallback)
	}
	if t.goType != "int64" {
		expr = "int64(" + expr + ")"
	}
	return fmt.Sprintf("w.intOr(%s, %q)", expr, x.fallback)
}
