package gogen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

func emitEncode(g *goSource, p *plan) {
	if p.keyless && len(p.Args) == 0 {
		g.line("func (%s) encode(*wire) {}\n", p.callType())
		return
	}
	g.line("func (c %s) encode(w *wire) {", p.callType())
	fixedKeys, fixedArgs := len(p.Keys), 0
	var grow []string
	for _, k := range p.Keys {
		if k.Many {
			fixedKeys--
		}
	}
	for _, a := range p.Args {
		switch a.Kind {
		case header.ArgScalar:
			fixedArgs++
		case header.ArgInclude:
			fixedArgs += len(a.Fields)
		case header.ArgGroup, header.ArgColumns:
			fixedArgs++
			grow = append(grow, fmt.Sprintf("%d*len(c.%s)", len(a.Fields), goname.Exported(a.Name)))
		case header.ArgRest:
			t, _ := header.ScalarNamed(a.Field.Scalar)
			grow = append(grow, fmt.Sprintf("len(c.%s)", goname.Field(a.Name, t.Name)))
		}
	}
	g.line("\tw.reserve(%d, %s)", fixedKeys, strings.Join(append([]string{fmt.Sprint(fixedArgs)}, grow...), "+"))
	emitTag(g, p)
	if id := ownerOf("c", p.FlatArgs()); id != "" && p.sealsArguments() {
		g.line("\tw.owner = string(%s)", id)
	}
	for _, k := range p.Keys {
		emitKey(g, p, k)
	}
	for _, a := range p.Args {
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
	for _, k := range p.Keys {
		t := p.lib.Template(k.Template)
		for _, param := range t.Params() {
			source := k.Source(param)
			if k.Optional || k.Many || need[source] || source == p.tagArg {
				continue
			}
			need[source] = true
			expr, typ := p.access(source)
			switch {
			case typ.Name == "execution_id" && t.TagFromExecution():
				g.line("\tw.belongs(%q, %s)", source, expr)
			case typ.Kind == header.KindText:
				g.line("\tw.need(%q, %s)", source, asString(expr, typ))
			}
		}
	}
	if !p.Composite() {
		return
	}
	for _, a := range p.FlatArgs() {
		if a.Scalar == "execution_id" && !need[a.Name] {
			expr, _ := p.access(a.Name)
			if a.Optional {
				g.line("\tif %s != \"\" {\n\t\tw.belongs(%q, %s)\n\t}", expr, a.Name, expr)
			} else {
				g.line("\tw.belongs(%q, %s)", a.Name, expr)
			}
		}
	}
}

func asString(expr string, t header.ScalarType) string {
	if t.GoType == "string" {
		return expr
	}
	return "string(" + expr + ")"
}

// keyCall is the builder call for a key; each gives the expression of a parameter.
func keyCall(
	p *plan, k header.Key, each func(source string) (string, header.ScalarType),
) (expr string, texts []string) {
	t := p.lib.Template(k.Template)
	args := []string{"w.tag"}
	for _, param := range t.Params() {
		value, have := each(k.Source(param))
		want := header.ParamType(param)
		if want.Kind == header.KindText {
			texts = append(texts, value)
		}
		if have.GoType != want.GoType {
			value = want.GoType + "(" + value + ")"
		}
		args = append(args, value)
	}
	return fmt.Sprintf("w.keys.%s(%s)", keyMethod(t), strings.Join(args, ", ")), texts
}

func emitKey(g *goSource, p *plan, k header.Key) {
	if k.Many {
		t := p.lib.Template(k.Template)
		var list, element string
		var typ header.ScalarType
		each := func(source string) (string, header.ScalarType) { return p.access(source) }
		for _, param := range t.Params() {
			source := k.Source(param)
			base, sub, dotted := strings.Cut(source, ".")
			for _, a := range p.Args {
				if a.Name != base || a.Kind == header.ArgScalar || a.Kind == header.ArgInclude {
					continue
				}
				if a.Kind == header.ArgRest {
					typ, _ = header.ScalarNamed(a.Field.Scalar)
					list, element = "c."+goname.Field(a.Name, typ.Name), source
				} else if dotted {
					i := slices.IndexFunc(a.Fields, func(x header.Field) bool { return x.Name == sub })
					if i >= 0 {
						typ, _ = header.ScalarNamed(a.Fields[i].Scalar)
						list, element = "c."+goname.Exported(a.Name), source
					}
				}
			}
			if p.slices[source] {
				typ = p.extraKind[source]
				list, element = "c."+goname.Field(source, typ.Name), source
			}
		}
		expr, _ := keyCall(p, k, func(source string) (string, header.ScalarType) {
			if source != element {
				return each(source)
			}
			if _, sub, ok := strings.Cut(source, "."); ok {
				return "x." + goname.Field(sub, typ.Name), typ
			}
			return "x", typ
		})
		g.line("\tfor _, x := range %s {\n\t\tw.key(%s)\n\t}", list, expr)
		return
	}
	expr, texts := keyCall(p, k, p.access)
	if k.Optional && len(texts) > 0 {
		var conds []string
		for _, t := range texts {
			conds = append(conds, t+` == ""`)
		}
		g.line("\tif %s {\n\t\tw.noKey()\n\t} else {\n\t\tw.key(%s)\n\t}", strings.Join(conds, " || "), expr)
		return
	}
	if k.ChosenBy != "" {
		by, typ := p.access(k.ChosenBy)
		params := append(append([]string{"w.tag"}, texts...), asString(by, typ))
		g.line("\tw.key(w.keys.%sBy(%s))", k.Role, strings.Join(params, ", "))
		return
	}
	g.line("\tw.key(%s)", expr)
}

func emitArgument(g *goSource, p *plan, a header.Argument) {
	switch a.Kind {
	case header.ArgScalar:
		g.line("\t%s", encodeScalar("c."+goname.Field(a.Name, a.Field.Scalar), a.Field))
	case header.ArgInclude:
		g.line("\tc.%s.encode(w)", goname.Exported(a.Set))
	case header.ArgRest:
		g.line("\tfor _, x := range c.%s {\n\t\t%s\n\t}", goname.Field(a.Name, a.Field.Scalar),
			encodeScalar("x", a.Field))
	case header.ArgGroup:
		list := "c." + goname.Exported(a.Name)
		g.line("\tw.int(int64(len(%s)))\n\tfor i := range %s {\n\t\tx := &%s[i]", list, list, list)
		for _, x := range a.Fields {
			switch {
			case p.Composite() && x.Scalar == "execution_id":
				g.line("\t\tw.belongs(%q, x.%s)", a.Name+"."+x.Name, goname.Field(x.Name, x.Scalar))
			case x.Scalar == "any_execution_id":
				g.line("\t\tw.anyExecution(%q, x.%s)", a.Name+"."+x.Name, goname.Field(x.Name, x.Scalar))
			}
			g.line("\t\t%s", encodeElement(a.Fields, x))
			if header.IsOwner(x) && hasSealed(a.Fields) {
				g.line("\t\tw.owner = string(x.%s)", goname.Field(x.Name, x.Scalar))
			}
		}
		g.line("\t}")
	case header.ArgColumns:
		list := "c." + goname.Exported(a.Name)
		g.line("\tw.int(int64(len(%s)))", list)
		for _, x := range a.Fields {
			g.line("\tfor _, x := range %s {\n\t\t%s\n\t}", list, encodeScalar("x."+goname.Field(x.Name, x.Scalar), x))
		}
	}
}

// encodeElement encodes a field of an element of a group. Its field node is the number of the node to which it belongs.
func encodeElement(fields []header.Field, x header.Field) string {
	isNode := func(x header.Field) bool { return x.Name == "node" && x.Scalar == "int" }
	expr := "x." + goname.Field(x.Name, x.Scalar)
	if x.IsSealed() && slices.ContainsFunc(fields, isNode) {
		expr = fmt.Sprintf("w.sealedOf(%s, x.Node, %s)", slotConst(x), expr)
		x.Slot = header.SlotPlain
	}
	return encodeScalar(expr, x)
}

// slotConst is the constant of package payload for the slot of a field.
func slotConst(x header.Field) string { return "payload." + goname.Exported(x.Slot) }

func hasSealed(fields []header.Field) bool {
	return slices.ContainsFunc(fields, func(x header.Field) bool { return x.IsSealed() })
}

// ownerOf is the field of a struct with the id of the run, the execution or the schedule to which sealed values belong.
func ownerOf(of string, fields []header.Field) string {
	for _, x := range fields {
		if header.IsOwner(x) {
			return of + "." + goname.Field(x.Name, x.Scalar)
		}
	}
	return ""
}

// sealsArguments reports whether the call has values of users among its arguments.
func (p *plan) sealsArguments() bool {
	return slices.ContainsFunc(p.Args, func(a header.Argument) bool { return a.Field.IsSealed() || hasSealed(a.Fields) })
}

func encodeScalar(expr string, x header.Field) string {
	t, _ := header.ScalarNamed(x.Scalar)
	if x.IsSealed() {
		expr = fmt.Sprintf("w.sealed(%s, %s)", slotConst(x), expr)
	}
	if x.Fallback != "" {
		return encodeOr(expr, x, t)
	}
	switch t.Kind {
	case header.KindText:
		return "w.text(" + asString(expr, t) + ")"
	case header.KindBytes:
		if x.Scalar == "value" {
			return "w.value(" + expr + ")"
		}
		return "w.bytes(" + expr + ")"
	case header.KindTime:
		if x.IsCallersClock() {
			return "w.timeOrNow(" + expr + ")"
		}
		return "w.time(" + expr + ")"
	case header.KindBool:
		return "w.bool(" + expr + ")"
	}
	verb := map[header.ValueKind]string{
		header.KindInt: "int", header.KindFloat: "float", header.KindMillis: "millis",
	}[t.Kind]
	// The first lease has epoch 1, so 0 is none: an operator override names no lease at all.
	if x.Optional || x.Scalar == "lease_epoch" {
		verb = "optional" + strings.ToUpper(verb[:1]) + verb[1:]
	}
	if t.Kind == header.KindInt && t.GoType != "int64" {
		expr = "int64(" + expr + ")"
	}
	return "w." + verb + "(" + expr + ")"
}

// encodeOr encodes an optional argument that is sent as its fallback where it is not set.
func encodeOr(expr string, x header.Field, t header.ScalarType) string {
	switch t.Kind {
	case header.KindText:
		return fmt.Sprintf("w.textOr(%s, %q)", asString(expr, t), x.Fallback)
	case header.KindMillis:
		return fmt.Sprintf("w.millisOr(%s, %q)", expr, x.Fallback)
	}
	if t.GoType != "int64" {
		expr = "int64(" + expr + ")"
	}
	return fmt.Sprintf("w.intOr(%s, %q)", expr, x.Fallback)
}
