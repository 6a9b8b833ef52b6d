package flow

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/jsontype"
)

// jsonFields are the fields of one struct type that a run can fill, in the order of their declaration.
type jsonFields struct {
	list   []jsontype.Field
	byName map[string]jsontype.Field
}

// names lists the fields for a fault.
func (f jsonFields) names() string {
	if len(f.list) == 0 {
		return "none"
	}
	names := make([]string, len(f.list))
	for i, field := range f.list {
		names[i] = fmt.Sprintf("%q", field.Name)
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
	case jsontype.Has[json.Unmarshaler](base):
		return jsonFields{}, "it has an UnmarshalJSON of its own"
	case jsontype.Has[encoding.TextUnmarshaler](base):
		return jsonFields{}, "it has an UnmarshalText of its own"
	}
	fields := fieldsOf(base)
	c[t] = fields
	return fields, ""
}

// fieldsOf returns the fields of a struct.
func fieldsOf(t reflect.Type) jsonFields {
	fields := jsonFields{byName: make(map[string]jsontype.Field)}
	for _, f := range jsontype.Fields(t) {
		if !f.WriteOnly {
			fields.list = append(fields.list, f)
			fields.byName[f.Name] = f
		}
	}
	return fields
}

// isOptional reports whether a Struct may leave the field out.
func isOptional(f jsontype.Field) bool { return f.CanBeAbsent || f.Go.Type.Kind() == reflect.Pointer }

// refuses returns the reason why the field cannot take a value of type from, "" if it can.
func refuses(f jsontype.Field, from reflect.Type) string {
	typ := f.Go.Type
	switch {
	case f.Quoted:
		return `is tagged ",string", which bindings do not honour`
	case typ == from, typ.Kind() == reflect.Pointer && typ.Elem() == from:
		return ""
	case typ.Kind() == reflect.Interface && typ.NumMethod() == 0, typ == reflect.TypeFor[json.RawMessage]():
		return ""
	}
	want, got := typ.String(), from.String()
	if want == got {
		want, got = typeName(typ), typeName(from)
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
