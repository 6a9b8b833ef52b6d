package main

import (
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// position names a line of a Lua file in messages.
type position struct {
	file string
	line int
}

// library is everything that the headers of a directory declare.
type library struct {
	files     []sourceFile
	templates []*template
	records   []*record
	arguments []*argumentSet
	errorSets []*errorSet
	functions []*function
	hooks     map[moduleField]position
	forms     []*textForm
	rows      []*rowLayout
	stores    []*storeDecl
}

type sourceFile struct {
	name string
	text string
}

// template is one key or channel pattern, without the prefix that every key begins with.
type template struct {
	pos   position
	name  string
	parts []templatePart
	// parsed: Go also reads these keys.
	parsed bool
}

// templatePart is literal text or, with param set, the place of a parameter.
type templatePart struct {
	literal string
	param   string
	// escaped: other parts follow the parameter, and it is free text, which must not be taken for them.
	escaped bool
}

func (t *template) tagged() bool {
	for _, p := range t.parts {
		if p.param == "tag" {
			return true
		}
	}
	return false
}

// family is the constant of the partition family that the template's keys belong to.
func (t *template) family() string {
	for _, f := range []struct{ word, family string }{{"budget", "keyspace.BudgetFamily"},
		{"quota", "keyspace.QuotaFamily"}} {
		if strings.HasPrefix(t.name, f.word+".") || strings.HasPrefix(t.name, "index."+f.word+"_") {
			return f.family
		}
	}
	return flowFamily
}

// tagFromExecution reports whether a key's tag can be read from the execution id in it.
func (t *template) tagFromExecution() bool {
	return t.family() == flowFamily && slices.Contains(t.params(), "execution_id")
}

const flowFamily = "keyspace.FlowFamily"

// params lists the parameters besides the tag, in order and once each.
func (t *template) params() []string {
	var out []string
	seen := map[string]bool{"tag": true}
	for _, p := range t.parts {
		if p.param != "" && !seen[p.param] {
			seen[p.param] = true
			out = append(out, p.param)
		}
	}
	return out
}

func (t *template) pattern() string {
	var b strings.Builder
	for _, p := range t.parts {
		switch {
		case p.escaped:
			b.WriteString("{" + p.param + escapedMark + "}")
		case p.param != "":
			b.WriteString("{" + p.param + "}")
		default:
			b.WriteString(p.literal)
		}
	}
	return b.String()
}

// escapedMark follows the name of a parameter whose colons are escaped in the key.
const escapedMark = ":escaped"

// unescaped is a parameter of a key of the composite calls that is free text, has other parts after it and is not
// escaped: two lists of parameters may then give the same key. It is "" without such a parameter. The keys of the
// contract are as they are.
func (t *template) unescaped() string {
	if !strings.HasPrefix(t.parts[0].literal, "ffx:") {
		return ""
	}
	for _, p := range t.parts[:len(t.parts)-1] {
		if p.param != "" && p.param != "tag" && !p.escaped && isFreeText(p.param) {
			return p.param
		}
	}
	return ""
}

// shape is the layout of a field's values.
type shape int

const (
	scalar shape = iota
	listOf
	restOf
	groupOf
	pairsOf
)

// field is a named value of a reply, a record, a group or an argument set.
type field struct {
	name     string
	shape    shape
	scalar   string // type name, for scalar fields and for lists of scalars
	record   string // record name, for lists of a named record
	inline   []field
	optional bool
	// fallback is the text that is sent for an optional argument that is not set; "" is an empty text.
	fallback string
	// omittable: a call may end before it, and the function defines the meaning of its absence.
	omittable bool
	doc       string
}

type record struct {
	pos    position
	name   string
	fields []field
}

type argumentSet struct {
	pos    position
	name   string
	fields []field
}

type errorSet struct {
	pos    position
	name   string
	errors []errorDecl
}

type errorDecl struct {
	pos     position
	code    string
	details []field
}

// key is one entry of KEYS, or with many set its rest.
type key struct {
	pos      position
	role     string
	template string
	bindings map[string]string
	optional bool
	// chosenBy is the argument by which the caller chooses the index; "" for a key that is always the same.
	chosenBy string
	many     bool
	doc      string
}

func (k key) source(param string) string {
	if s, ok := k.bindings[param]; ok {
		return s
	}
	return param
}

type argKind int

const (
	argScalar argKind = iota
	argInclude
	argGroup
	argColumns
	argRest
)

// argument is one declared piece of ARGV.
type argument struct {
	pos    position
	kind   argKind
	field  field   // argScalar; name and scalar of argRest
	set    string  // argInclude; record of argGroup and argColumns
	fields []field // argGroup, argColumns; filled in for argInclude
	name   string
	doc    string
}

type replyForm int

const (
	replyStandard replyForm = iota
	replyBare
	replyRaw
)

type reply struct {
	pos    position
	form   replyForm
	status string
	fields []field
}

type writesOn struct {
	pos  position
	code string
	keys []string
}

type function struct {
	pos      position
	name     string
	goName   string
	tag      string
	summary  string
	flags    map[string]bool
	keys     []key
	args     []argument
	replies  []reply
	errors   []errorDecl
	writesOn []writesOn
	body     string
	bodyLine int
}

// wireName is the name by which this module's programs call the function.
func (f *function) wireName() string { return wireName(f.name, lualib.Protocol) }

func (f *function) composite() bool { return strings.HasPrefix(f.name, "ffx_") }

func (l *library) template(name string) *template {
	for _, t := range l.templates {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (l *library) record(name string) *record {
	for _, r := range l.records {
		if r.name == name {
			return r
		}
	}
	return nil
}

func (l *library) argumentSet(name string) *argumentSet {
	for _, a := range l.arguments {
		if a.name == name {
			return a
		}
	}
	return nil
}

func (l *library) errorSet(name string) *errorSet {
	for _, e := range l.errorSets {
		if e.name == name {
			return e
		}
	}
	return nil
}

// flatArgs lists the scalar arguments, declared directly or by an included set.
func (f *function) flatArgs() []field {
	var out []field
	for _, a := range f.args {
		switch a.kind {
		case argScalar:
			out = append(out, a.field)
		case argInclude:
			out = append(out, a.fields...)
		}
	}
	return out
}

// assignGoNames gives every function the name of its Go call.
func assignGoNames(l *library) {
	composites := map[string]bool{}
	for _, f := range l.functions {
		if f.composite() {
			composites[strings.TrimPrefix(f.name, "ffx_")] = true
		}
	}
	for _, f := range l.functions {
		switch short := strings.TrimPrefix(strings.TrimPrefix(f.name, "ffx_"), "ff_"); {
		case f.goName != "":
		case !f.composite() && composites[short]:
			f.goName = "Contract" + exported(short)
		default:
			f.goName = exported(short)
		}
	}
}
