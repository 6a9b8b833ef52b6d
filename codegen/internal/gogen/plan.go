package gogen

import (
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// goField is one field of a generated call struct.
type goField struct {
	name   string // Go name
	goType string
	wire   string
	doc    string
	embed  bool
}

// plan is a function with everything decided that the Go side needs to know.
type plan struct {
	*header.Function
	lib       *header.Library
	tagArg    string // wire name of the execution id that gives the tag; "" = field Partition
	keyless   bool
	extras    []goField // fields for template parameters that are not arguments
	extraKind map[string]header.ScalarType
	slices    map[string]bool // extras that feed @keys
}

func (p *plan) callType() string  { return p.GoName + "Call" }
func (p *plan) replyType() string { return p.GoName + "Reply" }

// makePlan finds the source of the tag and the fields that keys need besides the arguments.
func makePlan(l *header.Library, f *header.Function) *plan {
	p := &plan{
		Function: f, lib: l, keyless: len(f.Keys) == 0, extraKind: map[string]header.ScalarType{},
		slices: map[string]bool{},
	}
	args := map[string]bool{}
	for _, a := range f.FlatArgs() {
		args[a.Name] = true
	}
	for _, a := range f.Args {
		if a.Kind == header.ArgRest || a.Kind == header.ArgGroup || a.Kind == header.ArgColumns {
			args[a.Name] = true
		}
	}
	for _, k := range f.Keys {
		t := l.Template(k.Template)
		if t == nil {
			continue
		}
		for _, param := range t.Params() {
			source, _, _ := strings.Cut(k.Source(param), ".")
			if args[source] {
				continue
			}
			if _, ok := p.extraKind[source]; ok {
				continue
			}
			typ := header.ParamType(param)
			p.extraKind[source] = typ
			goType := typ.GoType
			doc := fmt.Sprintf("%s is part of the key %s.", goname.Field(source, typ.Name), k.Role)
			if k.Many && k.Bindings[param] != "" {
				goType = "[]" + goType
				p.slices[source] = true
				doc = fmt.Sprintf("%s gives one key %s each.", goname.Field(source, typ.Name), k.Role)
			}
			p.extras = append(p.extras, goField{
				name: goname.Field(source, typ.Name), goType: goType, wire: source, doc: doc,
			})
		}
	}
	p.tagArg = p.findTag()
	return p
}

// family is the partition family of the call, derived from its first key.
func (p *plan) family() string {
	if len(p.Keys) > 0 {
		if t := p.lib.Template(p.Keys[0].Template); t != nil {
			return t.Family()
		}
	}
	return header.FlowFamily
}

func (p *plan) findTag() string {
	switch {
	case p.Tag == "partition" || p.keyless || p.Tag == "" && (p.Composite() || p.family() != header.FlowFamily):
		return ""
	case p.Tag != "":
		return p.Tag
	}
	for _, a := range p.FlatArgs() {
		if a.Scalar == "execution_id" && !a.Optional {
			return a.Name
		}
	}
	for _, e := range p.extras {
		if p.extraKind[e.wire].Name == "execution_id" && !p.slices[e.wire] {
			return e.wire
		}
	}
	return ""
}

// fields lists the fields of the call struct in order.
func (p *plan) fields() []goField {
	var out []goField
	if p.tagArg == "" && !p.keyless {
		out = append(out, goField{
			name: "Partition", goType: "keyspace.Partition",
			doc: "Partition is where the call works; its tag is part of every key.",
		})
	}
	out = append(out, p.extras...)
	for _, a := range p.Args {
		switch a.Kind {
		case header.ArgScalar:
			t, _ := header.ScalarNamed(a.Field.Scalar)
			out = append(out, goField{
				name: goname.Field(a.Name, t.Name), goType: t.GoType, wire: a.Name, doc: argumentDoc(a.Field),
			})
		case header.ArgInclude:
			out = append(out, goField{name: goname.Exported(a.Set), goType: goname.Exported(a.Set), embed: true})
		case header.ArgRest:
			t, _ := header.ScalarNamed(a.Field.Scalar)
			out = append(out, goField{
				name: goname.Field(a.Name, t.Name), goType: "[]" + t.GoType, wire: a.Name, doc: a.Doc,
			})
		case header.ArgGroup, header.ArgColumns:
			out = append(out, goField{name: goname.Exported(a.Name), goType: "[]" + p.groupType(a), wire: a.Name})
		}
	}
	return out
}

func argumentDoc(f header.Field) string {
	doc := f.Doc
	if f.Optional {
		if doc != "" {
			doc += "; "
		}
		doc += header.OptionalNote(f)
	}
	return doc
}

func (p *plan) groupType(a header.Argument) string {
	if a.Set != "" {
		return goname.Exported(a.Set)
	}
	return p.GoName + goname.Exported(goname.Singular(a.Name))
}

// access is the Go expression for the value that a template parameter takes from the call, and its type.
func (p *plan) access(source string) (string, header.ScalarType) {
	for _, a := range p.FlatArgs() {
		if a.Name == source {
			t, _ := header.ScalarNamed(a.Scalar)
			return "c." + goname.Field(a.Name, t.Name), t
		}
	}
	t := p.extraKind[source]
	return "c." + goname.Field(source, t.Name), t
}

// replyFields merges the fields of all reply variants, in order of first appearance.
func (p *plan) replyFields() []header.Field {
	var out []header.Field
	seen := map[string]bool{}
	for _, r := range p.Replies {
		for _, x := range r.Fields {
			if !seen[x.Name] {
				seen[x.Name] = true
				out = append(out, x)
			}
		}
	}
	return out
}

// statuses lists the distinct statuses in order.
func (p *plan) statuses() []string {
	var out []string
	seen := map[string]bool{}
	for _, r := range p.Replies {
		if !seen[r.Status] {
			seen[r.Status] = true
			out = append(out, r.Status)
		}
	}
	return out
}

// elementType is the Go type of one element of a nested field; owner prefixes unnamed ones.
func elementType(owner string, x header.Field) string {
	switch {
	case x.Record != "":
		return goname.Exported(x.Record)
	case x.Scalar != "":
		t, _ := header.ScalarNamed(x.Scalar)
		return t.GoType
	}
	return owner + goname.Exported(goname.Singular(x.Name))
}

// valueType is the Go type of a reply field.
func valueType(owner string, x header.Field) string {
	switch x.Shape {
	case header.Scalar:
		t, _ := header.ScalarNamed(x.Scalar)
		return t.GoType
	case header.PairsOf:
		return "[]Pair"
	}
	return "[]" + elementType(owner, x)
}

// nestedStruct is an unnamed element type that has to be declared.
type nestedStruct struct {
	name   string
	fields []header.Field
}

// nestedStructs lists the unnamed element types of fields, innermost last.
func nestedStructs(owner string, fields []header.Field) []nestedStruct {
	var out []nestedStruct
	for _, x := range fields {
		if len(x.Inline) == 0 {
			continue
		}
		name := elementType(owner, x)
		out = append(out, nestedStruct{name, x.Inline})
		out = append(out, nestedStructs(name, x.Inline)...)
	}
	return out
}

func makePlans(l *header.Library) []*plan {
	var plans []*plan
	for _, f := range l.Functions {
		plans = append(plans, makePlan(l, f))
	}
	return plans
}
