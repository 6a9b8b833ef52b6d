package header

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// Library is everything that the headers of a directory declare.
type Library struct {
	Files     []SourceFile
	Templates []*Template
	Records   []*record
	Arguments []*argumentSet
	errorSets []*errorSet
	Functions []*Function
	Hooks     map[ModuleField]Position
	Forms     []*Form
	Rows      []*Row
	Stores    []*Store
}

type SourceFile struct {
	Name string
	Text string
}

// Template is one key or channel pattern, without the prefix that every key begins with.
type Template struct {
	Pos   Position
	Name  string
	Parts []TemplatePart
	// Parsed: Go also reads these keys.
	Parsed bool
}

// TemplatePart is literal text or, with param set, the place of a parameter.
type TemplatePart struct {
	Literal string
	Param   string
	// Escaped: other parts follow the parameter, and it is free text, which must not be taken for them.
	Escaped bool
}

func (t *Template) Tagged() bool {
	for _, p := range t.Parts {
		if p.Param == "tag" {
			return true
		}
	}
	return false
}

// Family is the constant of the partition family that the template's keys belong to.
func (t *Template) Family() string {
	for _, f := range []struct{ word, family string }{{"budget", "keyspace.BudgetFamily"},
		{"quota", "keyspace.QuotaFamily"}} {
		if strings.HasPrefix(t.Name, f.word+".") || strings.HasPrefix(t.Name, "index."+f.word+"_") {
			return f.family
		}
	}
	return FlowFamily
}

// TagFromExecution reports whether a key's tag can be read from the execution id in it.
func (t *Template) TagFromExecution() bool {
	return t.Family() == FlowFamily && slices.Contains(t.Params(), "execution_id")
}

const FlowFamily = "keyspace.FlowFamily"

// Params lists the parameters besides the tag, in order and once each.
func (t *Template) Params() []string {
	var out []string
	seen := map[string]bool{"tag": true}
	for _, p := range t.Parts {
		if p.Param != "" && !seen[p.Param] {
			seen[p.Param] = true
			out = append(out, p.Param)
		}
	}
	return out
}

func (t *Template) Pattern() string {
	var b strings.Builder
	for _, p := range t.Parts {
		switch {
		case p.Escaped:
			b.WriteString("{" + p.Param + EscapedMark + "}")
		case p.Param != "":
			b.WriteString("{" + p.Param + "}")
		default:
			b.WriteString(p.Literal)
		}
	}
	return b.String()
}

// EscapedMark follows the name of a parameter whose colons are escaped in the key.
const EscapedMark = ":escaped"

// Unescaped is a parameter of a key of the composite calls that is free text, has other parts after it and is not
// escaped: two lists of parameters may then give the same key. It is "" without such a parameter. The keys of the
// contract are as they are.
func (t *Template) Unescaped() string {
	if !strings.HasPrefix(t.Parts[0].Literal, "ffx:") {
		return ""
	}
	for _, p := range t.Parts[:len(t.Parts)-1] {
		if p.Param != "" && p.Param != "tag" && !p.Escaped && isFreeText(p.Param) {
			return p.Param
		}
	}
	return ""
}

// Shape is the layout of a field's values.
type Shape int

const (
	Scalar Shape = iota
	ListOf
	RestOf
	GroupOf
	PairsOf
)

// Field is a named value of a reply, a record, a group or an argument set.
type Field struct {
	Name     string
	Shape    Shape
	Scalar   string // type name, for scalar fields and for lists of scalars
	Record   string // record name, for lists of a named record
	Inline   []Field
	Optional bool
	// Fallback is the text that is sent for an optional argument that is not set; "" is an empty text.
	Fallback string
	// Omittable: a call may end before it, and the function defines the meaning of its absence.
	Omittable bool
	// Slot is the kind of place, in the table of package payload, in which the engine keeps the value of a user that
	// the field has; SlotPlain for other bytes; "" for other types.
	Slot string
	Doc  string
}

// SlotPlain marks other bytes than values of users.
const SlotPlain = "plain"

// IsSealed reports whether the field has the value of a user.
func (f *Field) IsSealed() bool { return f.Slot != "" && f.Slot != SlotPlain }

type record struct {
	Pos    Position
	Name   string
	Fields []Field
}

type argumentSet struct {
	Pos    Position
	Name   string
	Fields []Field
}

type errorSet struct {
	pos    Position
	name   string
	errors []ErrorDecl
}

type ErrorDecl struct {
	Pos     Position
	Code    string
	Details []Field
}

// Key is one entry of KEYS, or with many set its rest.
type Key struct {
	Pos      Position
	Role     string
	Template string
	Bindings map[string]string
	Optional bool
	// ChosenBy is the argument by which the caller chooses the index; "" for a key that is always the same.
	ChosenBy string
	Many     bool
	Doc      string
}

func (k Key) Source(param string) string {
	if s, ok := k.Bindings[param]; ok {
		return s
	}
	return param
}

type argKind int

const (
	ArgScalar argKind = iota
	ArgInclude
	ArgGroup
	ArgColumns
	ArgRest
)

// Argument is one declared piece of ARGV.
type Argument struct {
	Pos    Position
	Kind   argKind
	Field  Field   // ArgScalar; name and scalar of ArgRest
	Set    string  // ArgInclude; record of ArgGroup and ArgColumns
	Fields []Field // ArgGroup, ArgColumns; filled in for ArgInclude
	Name   string
	Doc    string
}

type replyForm int

const (
	replyStandard replyForm = iota
	ReplyBare
	ReplyRaw
)

type Reply struct {
	Pos    Position
	Form   replyForm
	Status string
	Fields []Field
}

type writesOn struct {
	Pos  Position
	Code string
	Keys []string
}

type Function struct {
	Pos      Position
	Name     string
	GoName   string
	Tag      string
	Summary  string
	Flags    map[string]bool
	Keys     []Key
	Args     []Argument
	Replies  []Reply
	Errors   []ErrorDecl
	WritesOn []writesOn
	Body     string
	BodyLine int
}

// WireName is the name by which this module's programs call the function.
func (f *Function) WireName() string { return WireName(f.Name, lualib.Protocol) }

func (f *Function) Composite() bool { return strings.HasPrefix(f.Name, "ffx_") }

func (l *Library) Template(name string) *Template {
	for _, t := range l.Templates {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func (l *Library) Record(name string) *record {
	for _, r := range l.Records {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func (l *Library) argumentSet(name string) *argumentSet {
	for _, a := range l.Arguments {
		if a.Name == name {
			return a
		}
	}
	return nil
}

func (l *Library) errorSet(name string) *errorSet {
	for _, e := range l.errorSets {
		if e.name == name {
			return e
		}
	}
	return nil
}

// FlatArgs lists the scalar arguments, declared directly or by an included set.
func (f *Function) FlatArgs() []Field {
	var out []Field
	for _, a := range f.Args {
		switch a.Kind {
		case ArgScalar:
			out = append(out, a.Field)
		case ArgInclude:
			out = append(out, a.Fields...)
		}
	}
	return out
}

// assignGoNames gives every function the name of its Go call.
func assignGoNames(l *Library) {
	composites := map[string]bool{}
	for _, f := range l.Functions {
		if f.Composite() {
			composites[strings.TrimPrefix(f.Name, "ffx_")] = true
		}
	}
	for _, f := range l.Functions {
		switch short := strings.TrimPrefix(strings.TrimPrefix(f.Name, "ffx_"), "ff_"); {
		case f.GoName != "":
		case !f.Composite() && composites[short]:
			f.GoName = "Contract" + goname.Exported(short)
		default:
			f.GoName = goname.Exported(short)
		}
	}
}

type ModuleField struct{ Module, Field string }

// A module is a table with the functions of one file. It has the name of its file.
func ModuleOf(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".lua"), ".gen")
}

// handshake is the function by which programs and a library of any protocol find out about each other.
const handshake = "ffx_version"

// WireName is the name under which programs of a protocol call a function. Composite calls have separate names in each
// protocol after the first, so that none reaches a function of another form.
func WireName(name string, protocol int) string {
	if rest, composite := strings.CutPrefix(name, "ffx_"); composite && protocol > 1 && name != handshake {
		return fmt.Sprintf("ffx%d_%s", protocol, rest)
	}
	return name
}

// IsCallersClock reports whether a field is the present time by the caller's clock. Our library does without it, but
// other implementations of the contract store the value, or fail on a text that is not a number.
func (f Field) IsCallersClock() bool { return f.Name == "now_ms" && f.Optional }

// OptionalNote returns the note that a field is optional, with the value that is sent where it is not set.
func OptionalNote(f Field) string {
	if f.IsCallersClock() {
		return "optional, sent as the present time if unset"
	}
	if f.Fallback != "" {
		return "optional, sent as " + f.Fallback + " if unset"
	}
	return "optional"
}

func BoundPattern(t *Template, k Key) string {
	s := ""
	for _, part := range t.Parts {
		switch {
		case part.Param == "":
			s += part.Literal
		default:
			s += "{" + k.Source(part.Param) + "}"
		}
	}
	return s
}
