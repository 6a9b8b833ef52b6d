package main

import (
	"fmt"
)

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
	set := "out." + fieldName(x.name, x.scalar) + " = " + fieldValue(owner, x)
	if x.optional {
		return "if r.left() > 0 {\n" + set + "\n}"
	}
	return set
}

// fieldValue is the expression that reads a field.
func fieldValue(owner string, x field) string {
	name := fmt.Sprintf("%q", x.name)
	switch {
	case x.shape == scalar:
		return decodeScalar(name, x.scalar)
	case x.shape == pairsOf:
		return "pairs(r, " + name + ")"
	}
	verb := map[shape]string{listOf: "list", restOf: "rest", groupOf: "group"}[x.shape]
	if x.scalar != "" {
		return fmt.Sprintf("%sOf(r, %s, %s)", verb, name, scalarDecoder(x.scalar))
	}
	return fmt.Sprintf("%s(r, %s, decode%s)", verb, name, elementType(owner, x))
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
	if name == "execution_id" || name == "any_execution_id" {
		return "executionIDValue"
	}
	return "textValue[" + t.goType + "]"
}

func decodeScalar(nameExpr, typ string) string {
	return scalarDecoder(typ) + "(r, " + nameExpr + ")"
}
