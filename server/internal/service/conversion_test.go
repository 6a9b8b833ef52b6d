package service

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/flowfabric/flowfabric-go/internal/serverstore"
)

// Types of the API have the fields of types of package runtime, converted one by one. A field that a conversion
// forgets, or that a type has gained since, is zero here.
func TestConversionsAreComplete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, value any
		// unset are fields that are zero by their meaning.
		unset []string
		// renamed are fields of the original that have another name, or that are left out on purpose.
		renamed []string
	}{
		"token": {serverstore.Token{}, tokenOf(filled[serverstore.Token]()), nil, []string{"Hash"}},
	} {
		v := reflect.Indirect(reflect.ValueOf(c.value))
		for i := range v.NumField() {
			field := v.Type().Field(i).Name
			assert.Equal(t, slices.Contains(c.unset, field), v.Field(i).IsZero(), "%s: field %s", name, field)
		}
		for _, field := range reflect.VisibleFields(reflect.TypeOf(c.from)) {
			_, found := v.Type().FieldByName(field.Name)
			known := found || !field.IsExported() || slices.Contains(c.renamed, field.Name)
			assert.True(t, known, "%s: the API leaves out %s", name, field.Name)
		}
	}
}

func filled[T any]() T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), 0)
	return v
}

// fill sets all exported fields of a value to something that is not zero. Recursive types end at a depth of five.
func fill(v reflect.Value, depth int) {
	if depth > 5 || !v.CanSet() {
		return
	}
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1e9, 0)))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte("1"))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(time.Second))
	case reflect.Uint16, reflect.Uint64, reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(element, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, element)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	}
}
