package main

import (
	"fmt"
	"slices"
	"strings"
)

// emitCalls writes the call and reply types, codecs and methods of the functions of one Lua file.
func emitCalls(plans []*plan) (string, error) {
	var g goSource
	for _, p := range plans {
		emitCallType(&g, p)
		emitReplyType(&g, p)
		emitMethod(&g, p)
		emitEncode(&g, p)
		emitDecode(&g, p)
	}
	return g.file("enginecore", "context", "time")
}

func emitCallType(g *goSource, p *plan) {
	fields := p.fields()
	g.comment("", fmt.Sprintf("%s holds the arguments of Engine.%s.", p.callType(), p.goName))
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
			g.comment("\t", sentence(fieldName(x.name, x.scalar), "optional"))
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
	doc := fmt.Sprintf("%s runs %s. %s", p.goName, p.name, p.summary)
	g.comment("", doc)
	var notes []string
	switch {
	case p.flags["readonly"]:
		notes = append(notes, "It only reads.")
	case p.flags["repeatable"]:
		notes = append(notes, "Sending it again with the same arguments is safe, which the engine does after a lost connection.")
	default:
		notes = append(notes, "After a lost connection its outcome may be unknown: the error then wraps ErrOutcomeUnknown.")
	}
	if len(p.errors) > 0 {
		var codes []string
		for _, e := range p.errors {
			codes = append(codes, errorConst(e.code))
		}
		notes = append(notes, "Error codes: "+strings.Join(codes, ", ")+".")
	}
	g.line("//")
	g.comment("", strings.Join(notes, " "))
	g.line("func (e *Engine) %s(ctx context.Context, c %s) (%s, error) {", p.goName, p.callType(), p.replyType())
	g.line("\treturn Do(ctx, e, c)\n}\n")
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
		strings.Join(append([]string{fmt.Sprintf("name: %q", p.name)}, set...), ", "))
}

func errorConst(code string) string { return "Err" + exported(code) }

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
		g.line("\tw.partition(c.Partition)")
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
			case typ.name == "execution_id":
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
			if p.composite() && x.scalar == "execution_id" {
				g.line("\t\tw.belongs(%q, x.%s)", a.name+"."+x.name, fieldName(x.name, x.scalar))
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
	switch t.kind {
	case kindText:
		return "w.text(" + asString(expr, t) + ")"
	case kindBytes:
		return "w.bytes(" + expr + ")"
	case kindTime:
		return "w.time(" + expr + ")"
	case kindBool:
		return "w.bool(" + expr + ")"
	}
	verb := map[valueKind]string{kindInt: "int", kindFloat: "float", kindMillis: "millis"}[t.kind]
	if x.optional {
		verb = "optional" + strings.ToUpper(verb[:1]) + verb[1:]
	}
	if t.kind == kindInt && t.goType != "int64" {
		expr = "int64(" + expr + ")"
	}
	return "w." + verb + "(" + expr + ")"
}

func emitDecode(g *goSource, p *plan) {
	g.line("func (%s) decode(r *fields) (out %s) {", p.callType(), p.replyType())
	if p.replies[0].form == replyRaw {
		g.line("\t%s\n\treturn out\n}\n", decodeField(p.goName, p.replies[0].fields[0]))
		return
	}
	g.line("\tout.Status = r.status\n\tswitch {")
	for _, r := range p.replies {
		cond := "r.status == " + statusConst(r.status)
		same := 0
		for _, o := range p.replies {
			if o.status == r.status {
				same++
			}
		}
		if same > 1 {
			cond += fmt.Sprintf(" && r.left() == %d", len(r.fields))
		}
		g.line("\tcase %s:", cond)
		for _, x := range r.fields {
			g.line("\t\t%s", decodeField(p.goName, x))
		}
	}
	g.line("\tdefault:\n\t\tr.unknownStatus()\n\t}\n\treturn out\n}\n")
	for _, n := range nestedStructs(p.goName, p.replyFields()) {
		emitStructDecode(g, n.name, n.fields)
	}
}

func emitStructDecode(g *goSource, name string, fields []field) {
	g.line("func decode%s(r *fields, out *%s) {", name, name)
	for _, x := range fields {
		g.line("\t%s", decodeField(name, x))
	}
	g.line("}\n")
}

func decodeField(owner string, x field) string {
	target := "out." + fieldName(x.name, x.scalar)
	name := fmt.Sprintf("%q", x.name)
	if x.shape == scalar {
		set := target + " = " + decodeScalar(name, x.scalar)
		if x.optional {
			return "if r.left() > 0 {\n" + set + "\n}"
		}
		return set
	}
	if x.shape == pairsOf {
		return target + " = pairs(r, " + name + ")"
	}
	verb := map[shape]string{listOf: "list", restOf: "rest", groupOf: "group"}[x.shape]
	if x.scalar != "" {
		return fmt.Sprintf("%s = %sOf(r, %s, %s)", target, verb, name, scalarDecoder(x.scalar))
	}
	return fmt.Sprintf("%s = %s(r, %s, decode%s)", target, verb, name, elementType(owner, x))
}

// scalarDecoder is the function that reads one value of a type.
func scalarDecoder(name string) string {
	t, _ := scalarNamed(name)
	switch t.kind {
	case kindBytes:
		return "bytesValue"
	case kindInt:
		return "intValue[" + t.goType + "]"
	case kindFloat:
		return "floatValue"
	case kindMillis:
		return "millisValue"
	case kindTime:
		return "timeValue"
	case kindBool:
		return "boolValue"
	}
	if name == "execution_id" {
		return "executionIDValue"
	}
	return "textValue[" + t.goType + "]"
}

func decodeScalar(nameExpr, typ string) string {
	return scalarDecoder(typ) + "(r, " + nameExpr + ")"
}

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
	return g.file("enginecore", "time")
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

// emitErrors writes the error codes.
func emitErrors(l *library) (string, error) {
	type entry struct {
		code    string
		details []field
		users   []string
	}
	byCode := map[string]*entry{}
	for _, f := range l.functions {
		for _, e := range f.errors {
			x := byCode[e.code]
			if x == nil {
				x = &entry{code: e.code}
				byCode[e.code] = x
			}
			if len(e.details) > len(x.details) {
				x.details = e.details
			}
			x.users = append(x.users, f.name)
		}
	}
	var codes []string
	for c := range byCode {
		codes = append(codes, c)
	}
	slices.Sort(codes)
	var g goSource
	g.line("// Error codes of the library. Compare with errors.Is.\nconst (")
	for _, c := range codes {
		x := byCode[c]
		doc := fmt.Sprintf("%s comes from %s.", errorConst(c), strings.Join(x.users, ", "))
		if len(x.details) > 0 {
			var names []string
			for _, d := range x.details {
				names = append(names, d.name)
			}
			doc += " Details: " + strings.Join(names, ", ") + "."
		}
		g.comment("\t", doc)
		g.line("\t%s Code = %q", errorConst(c), c)
	}
	g.line(")\n")
	g.line("// detailIndex is the place of a named detail of code, or -1.")
	g.line("func detailIndex(code Code, name string) int {\n\tswitch code {")
	for _, c := range codes {
		if x := byCode[c]; len(x.details) > 0 {
			g.line("\tcase %s:\n\t\tswitch name {", errorConst(c))
			for i, d := range x.details {
				g.line("\t\tcase %q:\n\t\t\treturn %d", d.name, i)
			}
			g.line("\t\t}")
		}
	}
	g.line("\t}\n\treturn -1\n}\n")
	return g.file("enginecore")
}
