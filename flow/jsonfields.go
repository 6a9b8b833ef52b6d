package flow

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// jsonField is a field of a struct as encoding/json sees it.
type jsonField struct {
	name     string
	typ      reflect.Type
	optional bool
	quoted   bool // the ",string" tag option
	tagged   bool
	depth    int
}

// jsonFields are the fields of one struct type in the order of their declaration.
type jsonFields struct {
	list   []jsonField
	byName map[string]jsonField
}

// names lists the fields for a fault.
func (f jsonFields) names() string {
	if len(f.list) == 0 {
		return "none"
	}
	names := make([]string, len(f.list))
	for i, field := range f.list {
		names[i] = fmt.Sprintf("%q", field.name)
	}
	return strings.Join(names, ", ")
}

// fieldCache caches the fields of types used in one builder.
type fieldCache map[reflect.Type]jsonFields

// of returns the fields of t, or why t cannot be filled field by field.
func (c fieldCache) of(t reflect.Type) (jsonFields, string) {
	if fields, ok := c[t]; ok {
		return fields, ""
	}
	base := t
	if base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	switch {
	case base.Kind() != reflect.Struct:
		return jsonFields{}, "it is not a struct"
	case reflect.PointerTo(base).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return jsonFields{}, "it has an UnmarshalJSON of its own"
	case reflect.PointerTo(base).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return jsonFields{}, "it has an UnmarshalText of its own"
	}
	fields := visibleFields(base)
	c[t] = fields
	return fields, ""
}

// visibleFields applies the rules of encoding/json: of fields with one name the least nested counts, among these the
// one with a tag, and none when that leaves several.
func visibleFields(t reflect.Type) jsonFields {
	all := collectFields(t, 0, map[reflect.Type]bool{})
	best := make(map[string]jsonField, len(all))
	clash := make(map[string]bool)
	for _, f := range all {
		old, ok := best[f.name]
		switch {
		case !ok || f.beats(old):
			best[f.name] = f
			clash[f.name] = false
		case !old.beats(f):
			clash[f.name] = true
		}
	}
	fields := jsonFields{byName: best}
	listed := make(map[string]bool, len(all))
	for _, f := range all {
		if listed[f.name] {
			continue
		}
		listed[f.name] = true
		if clash[f.name] {
			delete(best, f.name)
			continue
		}
		fields.list = append(fields.list, best[f.name])
	}
	return fields
}

func (f jsonField) beats(other jsonField) bool {
	if f.depth != other.depth {
		return f.depth < other.depth
	}
	return f.tagged && !other.tagged
}

// collectFields lists the fields of t and of the types that it embeds. outer are the types around it, so that a type
// that embeds a pointer to itself ends.
func collectFields(t reflect.Type, depth int, outer map[reflect.Type]bool) []jsonField {
	if outer[t] {
		return nil
	}
	outer[t] = true
	defer delete(outer, t)
	var list []jsonField
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if strings.ContainsFunc(name, notInTagName) {
			name = ""
		}
		base := f.Type
		if f.Anonymous && base.Kind() == reflect.Pointer {
			base = base.Elem()
		}
		switch {
		case !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct):
			// Nothing sets it. This does not apply to an embedded struct, since its fields may be exported; it applies
			// to an embedded pointer to a struct, since the pointer is not exported.
		case f.Anonymous && name == "" && base.Kind() == reflect.Struct:
			list = append(list, collectFields(base, depth+1, outer)...)
		default:
			list = append(list, newJSONField(f, name, options, depth))
		}
	}
	return list
}

// notInTagName finds the characters for which encoding/json ignores the name in a tag.
func notInTagName(r rune) bool {
	return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

func newJSONField(f reflect.StructField, name, options string, depth int) jsonField {
	field := jsonField{name: name, typ: f.Type, tagged: name != "", depth: depth}
	if name == "" {
		field.name = f.Name
	}
	field.optional = f.Type.Kind() == reflect.Pointer
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			field.optional = true
		case "string":
			field.quoted = true
		}
	}
	return field
}

// refuses returns the reason why the field cannot take a value of type from, "" if it can.
func (f jsonField) refuses(from reflect.Type) string {
	switch {
	case f.quoted:
		return `is tagged ",string", which bindings do not honour`
	case f.typ == from, f.typ.Kind() == reflect.Pointer && f.typ.Elem() == from:
		return ""
	case f.typ.Kind() == reflect.Interface && f.typ.NumMethod() == 0, f.typ == reflect.TypeFor[json.RawMessage]():
		return ""
	}
	want, got := f.typ.String(), from.String()
	if want == got {
		want, got = typeName(f.typ), typeName(from)
	}
	return fmt.Sprintf("is %s, the binding is %s", want, got)
}

// typeName is the type's name with the full path of its package.
func typeName(t reflect.Type) string {
	if t.PkgPath() == "" || t.Name() == "" {
		return t.String()
	}
	return t.PkgPath() + "." + t.Name()
}
