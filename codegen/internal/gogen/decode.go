package gogen

import (
	"fmt"
	"slices"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

func emitDecode(g *goSource, p *plan) {
	owner, owners := "", p.ownersOfList()
	if opens(p.replyFields()) {
		owner = ownerOf("c", p.FlatArgs())
	}
	if owner == "" && owners == "" {
		g.line("func (%s) decode(r *fields) (out %s) {", p.callType(), p.replyType())
	} else {
		g.line("func (c %s) decode(r *fields) (out %s) {", p.callType(), p.replyType())
	}
	if owner != "" {
		g.line("\tr.owner = string(%s)", owner)
	}
	if owners != "" {
		g.line("\tr.owners = c.%s", owners)
	}
	if p.Replies[0].Form == header.ReplyRaw {
		g.line("\t%s\n\treturn out\n}\n", decodeField(p.GoName, p.Replies[0].Fields[0]))
		return
	}
	g.line("\tout.Status = r.status\n\tswitch {")
	for _, r := range p.Replies {
		cond := "r.status == " + statusConst(r.Status)
		same := 0
		for _, o := range p.Replies {
			if o.Status == r.Status {
				same++
			}
		}
		if same > 1 {
			cond += fmt.Sprintf(" && r.left() == %d", len(r.Fields))
		}
		g.line("\tcase %s:", cond)
		for _, x := range r.Fields {
			g.line("\t\t%s", decodeField(p.GoName, x))
		}
		emitOpen(g, r.Fields)
	}
	g.line("\tdefault:\n\t\tr.unknownStatus()\n\t}\n\treturn out\n}\n")
	for _, n := range nestedStructs(p.GoName, p.replyFields()) {
		emitStructDecode(g, n.name, n.fields)
	}
}

func emitStructDecode(g *goSource, name string, fields []header.Field) {
	g.line("func decode%s(r *fields, out *%s) {", name, name)
	owner := ownerOf("out", fields)
	for _, x := range fields {
		g.line("\t%s", decodeField(name, x))
		if opens(fields) && owner == "out."+goname.Field(x.Name, x.Scalar) {
			g.line("\tr.owner = string(%s)", owner)
		}
	}
	emitOpen(g, fields)
	g.line("}\n")
}

// emitOpen opens the values of users that a reply or a record has, once all of its fields are known. A field `upstream`
// or `result_node` has the node to which they belong.
func emitOpen(g *goSource, fields []header.Field) {
	owner := "r.owner"
	for _, x := range fields {
		if x.Name == "upstream" || x.Name == "result_node" {
			owner = "nodeOf(r.owner, out." + goname.Field(x.Name, x.Scalar) + ")"
		}
	}
	for _, x := range fields {
		if x.IsSealed() {
			name := "out." + goname.Field(x.Name, x.Scalar)
			g.line("\t%s = r.opened(%s, %s, %s)", name, slotConst(x), owner, name)
		}
	}
}

// opens reports whether fields, or elements of their lists, have values of users.
func opens(fields []header.Field) bool {
	return slices.ContainsFunc(fields, func(x header.Field) bool { return x.IsSealed() || x.Record != "" || opens(x.Inline) })
}

// ownersOfList is the argument with the executions to which the elements of a list of the reply belong, one to each;
// "" if the reply has no list of the same name with values of users.
func (p *plan) ownersOfList() string {
	for _, a := range p.Args {
		if a.Kind != header.ArgRest || a.Field.Scalar != "execution_id" {
			continue
		}
		for _, x := range p.replyFields() {
			r := p.lib.Record(x.Record)
			if x.Name == a.Name && r != nil && opens(r.Fields) {
				return goname.Field(a.Name, a.Field.Scalar)
			}
		}
	}
	return ""
}

func decodeField(owner string, x header.Field) string {
	set := "out." + goname.Field(x.Name, x.Scalar) + " = " + fieldValue(owner, x)
	if x.Optional {
		return "if r.left() > 0 {\n" + set + "\n}"
	}
	return set
}

// fieldValue is the expression that reads a field.
func fieldValue(owner string, x header.Field) string {
	name := fmt.Sprintf("%q", x.Name)
	switch {
	case x.Shape == header.Scalar:
		return decodeScalar(name, x.Scalar)
	case x.Shape == header.PairsOf:
		return "pairs(r, " + name + ")"
	}
	verb := map[header.Shape]string{header.ListOf: "list", header.RestOf: "rest", header.GroupOf: "group"}[x.Shape]
	if x.Scalar != "" {
		return fmt.Sprintf("%sOf(r, %s, %s)", verb, name, scalarDecoder(x.Scalar))
	}
	return fmt.Sprintf("%s(r, %s, decode%s)", verb, name, elementType(owner, x))
}

// scalarDecoder is the function that reads one value of a type.
func scalarDecoder(name string) string {
	t, _ := header.ScalarNamed(name)
	switch t.Kind {
	case header.KindBytes:
		if name == "value" {
			return "storedValue"
		}
		return "bytesValue"
	case header.KindInt:
		return "intValue[" + t.GoType + "]"
	case header.KindFloat:
		return "floatValue"
	case header.KindMillis:
		return "millisValue"
	case header.KindTime:
		return "timeValue"
	case header.KindBool:
		return "boolValue"
	}
	if name == "execution_id" || name == "any_execution_id" {
		return "executionIDValue"
	}
	return "textValue[" + t.GoType + "]"
}

func decodeScalar(nameExpr, typ string) string {
	return scalarDecoder(typ) + "(r, " + nameExpr + ")"
}
