package flow

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/jsontype"
)

type (
	inner  struct{ A, B int }
	twin   struct{ A, E int }
	tagged struct {
		C int `json:"A"`
	}
	Exported struct {
		D int `json:"d"`
	}
	deeper struct{ inner }
	Cycle  struct {
		F int
		*Cycle
	}
	Text string
)

// The names that Struct accepts are those that encoding/json reads.
func TestFieldsAreThoseOfJSON(t *testing.T) {
	t.Parallel()
	for _, value := range []any{
		struct{}{},
		struct{ A, b int }{},
		struct {
			A int `json:"a,omitzero"`
			B int `json:"-"`
			C int `json:"c d/é"`
			D int `json:",omitempty"`
			E int `json:"e,string"`
			F int `yaml:"f"`
		}{},
		struct{ inner }{},
		struct {
			inner
			A string
		}{},
		struct {
			inner
			tagged
		}{},
		struct {
			inner
			Exported
			*tagged
		}{},
		struct {
			inner
			X deeper
		}{},
		struct {
			inner    `json:"named"`
			Exported `json:"other"`
		}{},
		struct {
			deeper
			tagged
		}{},
		struct {
			inner
			twin
			C int
		}{},
		struct {
			X struct{ A int } `json:"x"`
			Exported
		}{},
		struct {
			Text
			*Exported
		}{},
		Cycle{},
	} {
		typ := reflect.TypeOf(value)
		fields, problem := make(fieldCache).of(typ)
		if problem != "" {
			t.Errorf("%T: %s", value, problem)
			continue
		}
		for _, f := range fields.list {
			if !reads(typ, f.Name) {
				t.Errorf("%T: encoding/json does not read %q", value, f.Name)
			}
		}
		for _, name := range []string{"A", "B", "C", "D", "E", "F", "X", "a", "b", "d", "e", "f", "x", "-", "c d/é", "named", "other", "inner", "Exported", "Text", "loop", "Cycle", "tagged"} {
			known := slices.ContainsFunc(fields.list, func(f jsontype.Field) bool { return f.Name == name })
			if _, indexed := fields.byName[name]; known != indexed {
				t.Errorf("%T: %q is listed: %v, indexed: %v", value, name, known, indexed)
			}
			if !known && readsExactly(typ, name) {
				t.Errorf("%T: encoding/json reads %q, which is not in %v", value, name, fields.names())
			}
		}
	}
}

// reads reports whether encoding/json has a field for the name: one with a value of an impossible type is an error.
func reads(t reflect.Type, name string) bool {
	for _, value := range []string{`[[]]`, `"x"`, `{"x":[]}`, `true`} {
		data := []byte(`{` + string(flowgraph.AppendQuoted(nil, name)) + `:` + value + `}`)
		if json.Unmarshal(data, reflect.New(t).Interface()) != nil {
			return true
		}
	}
	return false
}

// readsExactly is reads without the tolerance of encoding/json for upper and lower case.
func readsExactly(t reflect.Type, name string) bool {
	data, err := json.Marshal(filled(t).Interface())
	if err != nil {
		return false
	}
	var fields map[string]any
	_ = json.Unmarshal(data, &fields)
	_, ok := fields[name]
	return ok
}

// filled returns a value of a struct type without zero fields, so that omitempty shows them.
func filled(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	for i := range t.NumField() {
		f := v.Field(i)
		if !f.CanSet() {
			continue
		}
		switch f.Kind() {
		case reflect.Int:
			f.SetInt(1)
		case reflect.String:
			f.SetString("x")
		case reflect.Struct:
			f.Set(filled(f.Type()))
		case reflect.Pointer:
			if f.Type().Elem() != t {
				f.Set(filled(f.Type().Elem()).Addr())
			}
		}
	}
	return v
}

func TestOptionalFields(t *testing.T) {
	t.Parallel()
	fields, _ := make(fieldCache).of(reflect.TypeFor[*struct {
		A int
		B int  `json:",omitempty"`
		C int  `json:"c,omitzero"`
		D *int `json:"d"`
		E []int
		F any
	}]())
	var optional []string
	for _, f := range fields.list {
		if isOptional(f) {
			optional = append(optional, f.Name)
		}
	}
	if !slices.Equal(optional, []string{"B", "c", "d"}) {
		t.Errorf("optional are %q", optional)
	}
}
