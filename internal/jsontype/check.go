package jsontype

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

// Check returns an error for a type whose values JSON cannot hold: it has a part without a JSON form, such as a
// channel, a part that cannot be read, such as an error, or a struct all of whose fields are unexported, which would be
// lost. The error names the part. Types with JSON or text methods of their own have no faults.
func Check(t reflect.Type) error {
	return (&checker{seen: make(map[reflect.Type]bool)}).check(t)
}

// Has reports whether a type or its pointer has the methods of I.
func Has[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Implements(i) || reflect.PointerTo(t).Implements(i)
}

// IsKey reports whether keys of a map can have the type.
func IsKey(t reflect.Type) bool {
	kind := t.Kind()
	return kind == reflect.String || kind >= reflect.Int && kind <= reflect.Uintptr || Has[encoding.TextMarshaler](t)
}

// hasOwnForm reports whether methods of the type write or read its JSON.
func hasOwnForm(t reflect.Type) bool {
	return Has[json.Marshaler](t) || Has[json.Unmarshaler](t) || Has[encoding.TextMarshaler](t) ||
		Has[encoding.TextUnmarshaler](t)
}

type checker struct{ seen map[reflect.Type]bool }

func (c *checker) check(t reflect.Type) error {
	if c.seen[t] {
		return nil
	}
	c.seen[t] = true
	if t.Kind() == reflect.Interface {
		if t.NumMethod() > 0 {
			return fmt.Errorf("type %s is an interface with methods, which JSON cannot decode into", t)
		}
		return nil
	}
	if hasOwnForm(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("type %s has no JSON form", t)
	case reflect.Map:
		if !IsKey(t.Key()) {
			return fmt.Errorf("type %s has no JSON form: its keys must be strings, integers, or texts", t)
		}
		return c.check(t.Elem())
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return c.check(t.Elem())
	case reflect.Struct:
		return c.fields(t)
	}
	return nil
}

func (c *checker) fields(t reflect.Type) error {
	fields := Fields(t)
	if len(fields) == 0 && losesFields(t) {
		return fmt.Errorf("type %s has no JSON field, all of it would be lost: export its fields", t)
	}
	for _, f := range fields {
		if f.WriteOnly {
			return fmt.Errorf("type %s: field %s: JSON cannot be read into a pointer to an unexported type that is embedded",
				t, f.Go.Name)
		}
		if err := c.check(f.Go.Type); err != nil {
			return fmt.Errorf("type %s: field %s: %w", t, f.Go.Name, err)
		}
	}
	return nil
}

// losesFields reports whether a struct without JSON fields has a field that its tag does not exclude. Locks have no
// value that could be lost.
func losesFields(t reflect.Type) bool {
	if t.PkgPath() == "sync" {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name != "_" && f.Tag.Get("json") != "-" && f.Type.Size() > 0 && !isLock(f.Type) {
			return true
		}
	}
	return false
}

func isLock(t reflect.Type) bool { return t.Kind() == reflect.Struct && t.PkgPath() == "sync" }
