package main

import (
	"fmt"
	"strings"
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
	*function
	lib       *library
	tagArg    string // wire name of the execution id that gives the tag; "" = field Partition
	keyless   bool
	extras    []goField // fields for template parameters that are not arguments
	extraKind map[string]scalarType
	slices    map[string]bool // extras that feed @keys
}

func (p *plan) callType() string  { return p.goName + "Call" }
func (p *plan) replyType() string { return p.goName + "Reply" }

// makePlan finds the source of the tag and the fields that keys need besides the arguments.
func makePlan(l *library, f *function) *plan {
	p := &plan{
		function: f, lib: l, keyless: len(f.keys) == 0, extraKind: map[string]scalarType{}, slices: map[string]bool{},
	}
	args := map[string]bool{}
	for _, a := range f.flatArgs() {
		args[a.name] = true
	}
	for _, a := range f.args {
		if a.kind == argRest || a.kind == argGroup || a.kind == argColumns {
			args[a.name] = true
		}
	}
	for _, k := range f.keys {
		t := l.template(k.template)
		if t == nil {
			continue
		}
		for _, param := range t.params() {
			source, _, _ := strings.Cut(k.source(param), ".")
			if args[source] {
				continue
			}
			if _, ok := p.extraKind[source]; ok {
				continue
			}
			typ := paramType(param)
			p.extraKind[source] = typ
			goType := typ.goType
			doc := fmt.Sprintf("%s is part of the key %s.", fieldName(source, typ.name), k.role)
			if k.many && k.bindings[param] != "" {
				goType = "[]" + goType
				p.slices[source] = true
				doc = fmt.Sprintf("%s gives one key %s each.", fieldName(source, typ.name), k.role)
			}
			p.extras = append(p.extras, goField{
				name: fieldName(source, typ.name), goType: goType, wire: source, doc: doc,
			})
		}
	}
	p.tagArg = p.findTag()
	return p
}

// family is the partition family of the call, derived from its first key.
func (p *plan) family() string {
	if len(p.keys) > 0 {
		if t := p.lib.template(p.keys[0].template); t != nil {
			return t.family()
		}
	}
	return flowFamily
}

func (p *plan) findTag() string {
	switch {
	case p.tag == "partition" || p.keyless || p.tag == "" && (p.composite() || p.family() != flowFamily):
		return ""
	case p.tag != "":
		return p.tag
	}
	for _, a := range p.flatArgs() {
		if a.scalar == "execution_id" && !a.optional {
			return a.name
		}
	}
	for _, e := range p.extras {
		if p.extraKind[e.wire].name == "execution_id" && !p.slices[e.wire] {
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
	for _, a := range p.args {
		switch a.kind {
		case argScalar:
			t, _ := scalarNamed(a.field.scalar)
			out = append(out, goField{
				name: fieldName(a.name, t.name), goType: t.goType, wire: a.name, doc: argumentDoc(a.field),
			})
		case argInclude:
			out = append(out, goField{name: exported(a.set), goType: exported(a.set), embed: true})
		case argRest:
			t, _ := scalarNamed(a.field.scalar)
			out = append(out, goField{
				name: fieldName(a.name, t.name), goType: "[]" + t.goType, wire: a.name, doc: a.doc,
			})
		case argGroup, argColumns:
			out = append(out, goField{name: exported(a.name), goType: "[]" + p.groupType(a), wire: a.name})
		}
	}
	return out
}

func argumentDoc(f field) string {
	doc := f.doc
	if f.optional {
		if doc != "" {
			doc += "; "
		}
		doc += optionalNote(f)
	}
	return doc
}

// optionalNote returns the note that a field is optional, with the value that is sent where it is not set.
func optionalNote(f field) string {
	if f.isCallersClock() {
		return "optional, sent as the present time if unset"
	}
	if f.fallback != "" {
		return "optional, sent as " + f.fallback + " if unset"
	}
	return "optional"
}

func (p *plan) groupType(a argument) string {
	if a.set != "" {
		return exported(a.set)
	}
	return p.goName + exported(singular(a.name))
}

// access is the Go expression for the value that a template parameter takes from the call, and its type.
func (p *plan) access(source string) (string, scalarType) {
	for _, a := range p.flatArgs() {
		if a.name == source {
			t, _ := scalarNamed(a.scalar)
			return "c." + fieldName(a.name, t.name), t
		}
	}
	t := p.extraKind[source]
	return "c." + fieldName(source, t.name), t
}

// replyFields merges the fields of all reply variants, in order of first appearance.
func (p *plan) replyFields() []field {
	var out []field
	seen := map[string]bool{}
	for _, r := range p.replies {
		for _, x := range r.fields {
			if !seen[x.name] {
				seen[x.name] = true
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
	for _, r := range p.replies {
		if !seen[r.status] {
			seen[r.status] = true
			out = append(out, r.status)
		}
	}
	return out
}

// elementType is the Go type of one element of a nested field; owner prefixes unnamed ones.
func elementType(owner string, x field) string {
	switch {
	case x.record != "":
		return exported(x.record)
	case x.scalar != "":
		t, _ := scalarNamed(x.scalar)
		return t.goType
	}
	return owner + exported(singular(x.name))
}

// valueType is the Go type of a reply field.
func valueType(owner string, x field) string {
	switch x.shape {
	case scalar:
		t, _ := scalarNamed(x.scalar)
		return t.goType
	case pairsOf:
		return "[]Pair"
	}
	return "[]" + elementType(owner, x)
}

// nestedStruct is an unnamed element type that has to be declared.
type nestedStruct struct {
	name   string
	fields []field
}

// nestedStructs lists the unnamed element types of fields, innermost last.
func nestedStructs(owner string, fields []field) []nestedStruct {
	var out []nestedStruct
	for _, x := range fields {
		if len(x.inline) == 0 {
			continue
		}
		name := elementType(owner, x)
		out = append(out, nestedStruct{name, x.inline})
		out = append(out, nestedStructs(name, x.inline)...)
	}
	return out
}
