package gogen

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

func emitDecode(g *goSource, p *plan) {
	g.line("func (%s) decode(r *fields) (out %s) {", p.callType(), p.replyType())
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
	}
	g.line("\tdefault:\n\t\tr.unknownStatus()\n\t}\n\treturn out\n}\n")
	for _, n := range nestedStructs(p.GoName, p.replyFields()) {
		emitStructDecode(g, n.name, n.fields)
	}
}

func emitStructDecode(g *goSource, name string, fields []header.Field) {
	g.line("func decode%s(r *fields, out *%s) {", name, name)
	for _, x := range fields {
		g.line("\t%s", decodeField(name, x))
	}
	g.line("}\n")
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
