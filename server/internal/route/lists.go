package route

import (
	"reflect"
	"strings"
)

// fill makes lists of a value that are nil empty ones, so that replies have no null where the document has a list.
type fill func(reflect.Value)

// filler returns the function that replaces nil lists in values of a type: nil if no value of it has a list that is
// written when it is empty.
func filler(t reflect.Type) fill { return fillerOf(t, map[reflect.Type]bool{}) }

// fillerOf does not look into types that it is within. No type of a reply contains itself with such a list.
func fillerOf(t reflect.Type, within map[reflect.Type]bool) fill {
	if within[t] {
		return nil
	}
	within[t] = true
	defer delete(within, t)
	switch t.Kind() {
	case reflect.Pointer:
		if each := fillerOf(t.Elem(), within); each != nil {
			return func(v reflect.Value) {
				if !v.IsNil() {
					each(v.Elem())
				}
			}
		}
	case reflect.Slice:
		if each := fillerOf(t.Elem(), within); each != nil {
			return func(v reflect.Value) {
				for i := range v.Len() {
					each(v.Index(i))
				}
			}
		}
	case reflect.Struct:
		return fillerOfStruct(t, within)
	}
	return nil
}

func fillerOfStruct(t reflect.Type, within map[reflect.Type]bool) fill {
	var parts []fill
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() || field.Tag.Get("json") == "-" {
			continue
		}
		each := fillerOf(field.Type, within)
		_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		list := field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() != reflect.Uint8 &&
			!strings.Contains(options, "omit")
		if each == nil && !list {
			continue
		}
		empty := field.Type
		parts = append(parts, func(v reflect.Value) {
			v = v.Field(i)
			if list && v.IsNil() {
				v.Set(reflect.MakeSlice(empty, 0, 0))
			}
			if each != nil {
				each(v)
			}
		})
	}
	if parts == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, part := range parts {
			part(v)
		}
	}
}
