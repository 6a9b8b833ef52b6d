package jsontype

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Field is a field of a struct in its JSON form.
type Field struct {
	// Name is its name in JSON.
	Name string
	// Go is the field of the struct, or of a struct embedded in it.
	Go reflect.StructField
	// CanBeAbsent reports one of the tag options omitempty and omitzero.
	CanBeAbsent bool
	// Quoted reports a scalar with the tag option string.
	Quoted bool
	// WriteOnly reports a field of an embedded pointer to an unexported struct, which encoding/json cannot allocate.
	WriteOnly bool

	depth  int
	tagged bool // its name comes from its tag
}

// Fields returns the fields that encoding/json writes for a struct, in their order: of those with one name, the
// shallowest, and of those the one with a tag. None of several that are alike is written.
func Fields(t reflect.Type) []Field {
	all := collect(nil, t, Field{}, nil)
	best := make(map[string][]int, len(all))
	for i, field := range all {
		switch others := best[field.Name]; {
		case len(others) == 0 || field.dominates(all[others[0]]):
			best[field.Name] = []int{i}
		case !all[others[0]].dominates(field):
			best[field.Name] = append(others, i)
		}
	}
	var fields []Field
	for i, field := range all {
		if chosen := best[field.Name]; len(chosen) == 1 && chosen[0] == i {
			fields = append(fields, field)
		}
	}
	return fields
}

func (f Field) dominates(other Field) bool {
	if f.depth != other.depth {
		return f.depth < other.depth
	}
	return f.tagged && !other.tagged
}

// collect appends the fields of a struct and of the structs that are embedded in it, except the structs in outer, in
// which it is embedded itself. within has the depth of the struct, and whether its fields can only be written.
func collect(fields []Field, t reflect.Type, within Field, outer []reflect.Type) []Field {
	if slices.Contains(outer, t) {
		return fields
	}
	outer = append(slices.Clip(outer), t)
	for i := range t.NumField() {
		field := t.Field(i)
		base := field.Type
		if base.Kind() == reflect.Pointer && base.Name() == "" {
			base = base.Elem()
		}
		embedded := field.Anonymous && base.Kind() == reflect.Struct
		tag := field.Tag.Get("json")
		if tag == "-" || !field.IsExported() && !embedded {
			continue
		}
		f := Field{Go: field, depth: within.depth, WriteOnly: within.WriteOnly}
		name, options, _ := strings.Cut(tag, ",")
		if strings.ContainsFunc(name, notInTagName) {
			name = ""
		}
		if !field.IsExported() && field.Type != base {
			f.WriteOnly = true
		}
		if embedded && name == "" {
			f.depth++
			fields = collect(fields, base, f, outer)
			continue
		}
		f.Name, f.tagged = name, name != ""
		if name == "" {
			f.Name = field.Name
		}
		has := func(option string) bool { return strings.Contains(","+options+",", ","+option+",") }
		f.CanBeAbsent = has("omitempty") || has("omitzero")
		f.Quoted = has("string") && isScalar(base.Kind())
		fields = append(fields, f)
	}
	return fields
}

// notInTagName finds the characters for which encoding/json ignores the name in a tag.
func notInTagName(r rune) bool {
	return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

func isScalar(kind reflect.Kind) bool {
	return kind >= reflect.Bool && kind <= reflect.Float64 || kind == reflect.String
}
