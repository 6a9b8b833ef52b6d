package valueschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"
)

// MaxBytes is the largest size of a schema, in bytes of JSON.
const MaxBytes = 64 << 10

// Of returns the JSON Schema (draft 2020-12) of what encoding/json writes for a type. The tag `jsonschema:"text"` of a
// field becomes its description. A type that writes its own JSON may be any value, one that writes its own text is a
// string, and a type that contains itself is described by its kind alone. The error names the part of the type that has
// no JSON, or the size of a schema above MaxBytes.
func Of(t reflect.Type) (json.RawMessage, error) {
	schema, err := (&inference{}).schemaOf(t)
	if err != nil {
		return nil, fmt.Errorf("schema of type %s: %w", t, err)
	}
	return encode(t, schema)
}

// OfDecoded returns the JSON Schema of what encoding/json reads into a type: fields may be missing or null, and others
// may be there. It is nil for a type that any value is read into. The error is that of Of.
func OfDecoded(t reflect.Type) (json.RawMessage, error) {
	schema, err := (&inference{}).schemaOf(t)
	if err != nil {
		return nil, fmt.Errorf("schema of type %s: %w", t, err)
	}
	schema.loosen()
	if len(schema.Type) == 0 {
		return nil, nil
	}
	return encode(t, schema)
}

func encode(t reflect.Type, schema *typeSchema) (json.RawMessage, error) {
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("schema of type %s: %w", t, err)
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("schema of type %s has %d bytes, more than %d", t, len(data), MaxBytes)
	}
	return data, nil
}

// inference derives the schema of one type.
type inference struct {
	// open are the types whose parts are being described: true for one that was met among its own parts.
	open map[reflect.Type]bool
}

func (f *inference) schemaOf(t reflect.Type) (*typeSchema, error) {
	if t.Kind() == reflect.Pointer {
		schema, err := f.schemaOf(t.Elem())
		if err == nil {
			schema.addNull()
		}
		return schema, err
	}
	if schema := standard(t); schema != nil {
		return schema, nil
	}
	if _, isOpen := f.open[t]; isOpen {
		f.open[t] = true
		return ofKind(t.Kind()), nil
	}
	if f.open == nil {
		f.open = make(map[reflect.Type]bool)
	}
	f.open[t] = false
	schema, err := f.composed(t)
	if f.open[t] {
		schema = ofKind(t.Kind())
	}
	delete(f.open, t)
	return schema, err
}

// composed describes a type by its parts.
func (f *inference) composed(t reflect.Type) (*typeSchema, error) {
	schema := ofKind(t.Kind())
	var err error
	switch t.Kind() {
	case reflect.Struct:
		schema.AdditionalProperties = false
		err = f.addFields(schema, t)
	case reflect.Map:
		if !isKey(t.Key()) {
			return nil, fmt.Errorf("%s: its keys have no JSON", t)
		}
		schema.AdditionalProperties, err = f.schemaOf(t.Elem())
	case reflect.Slice:
		schema.Items, err = f.schemaOf(t.Elem())
	case reflect.Array:
		schema.Items, err = f.schemaOf(t.Elem())
		schema.MinItems, schema.MaxItems = new(t.Len()), new(t.Len())
	default:
		return nil, fmt.Errorf("%s has no JSON", t)
	}
	return schema, err
}

func isKey(t reflect.Type) bool {
	kind := t.Kind()
	return kind == reflect.String || kind >= reflect.Int && kind <= reflect.Uintptr || either[encoding.TextMarshaler](t)
}

func (f *inference) addFields(schema *typeSchema, t reflect.Type) error {
	for _, field := range fieldsOf(t) {
		property, err := f.schemaOf(field.Type)
		if err != nil {
			return err
		}
		if field.quoted {
			property = &typeSchema{Type: types{"string"}}
			if field.Type.Kind() == reflect.Pointer {
				property.addNull()
			}
		}
		property.name, property.Description = field.name, field.Tag.Get("jsonschema")
		schema.Properties = append(schema.Properties, property)
		if !field.optional {
			schema.Required = append(schema.Required, field.name)
		}
	}
	return nil
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	bigIntType = reflect.TypeFor[big.Int]()
	numberType = reflect.TypeFor[json.Number]()
)

// standard returns the schema of a type that needs no look at its parts, or nil.
func standard(t reflect.Type) *typeSchema {
	switch {
	case t == timeType:
		return &typeSchema{Type: types{"string"}, Format: "date-time"}
	case t == bigIntType:
		return &typeSchema{Type: types{"integer"}}
	case t == numberType:
		return &typeSchema{Type: types{"number"}}
	case t.Kind() == reflect.Interface, either[json.Marshaler](t), either[json.Unmarshaler](t):
		return &typeSchema{}
	case either[encoding.TextMarshaler](t), either[encoding.TextUnmarshaler](t):
		return &typeSchema{Type: types{"string"}}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &typeSchema{Type: types{"null", "string"}, ContentEncoding: "base64"}
	default:
		return scalar(t)
	}
}

// either reports whether a type or its pointer has the methods of I.
func either[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Implements(i) || reflect.PointerTo(t).Implements(i)
}

// scalar returns the schema of a type that has no parts, or nil. Integers are bounded: encoding/json refuses to read
// larger ones. Bounds of 64 bits are the formats of OpenAPI, since many programs read numbers as floats.
func scalar(t reflect.Type) *typeSchema {
	switch t.Kind() {
	case reflect.Bool:
		return &typeSchema{Type: types{"boolean"}}
	case reflect.String:
		return &typeSchema{Type: types{"string"}}
	case reflect.Float32, reflect.Float64:
		return &typeSchema{Type: types{"number"}}
	case reflect.Int, reflect.Int64:
		return &typeSchema{Type: types{"integer"}, Format: formatInt64}
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return &typeSchema{Type: types{"integer"}, Minimum: new(int64(0)), Format: formatUint64}
	case reflect.Int8, reflect.Int16, reflect.Int32:
		most := int64(math.MaxInt64) >> (64 - t.Bits())
		return &typeSchema{Type: types{"integer"}, Minimum: new(-most - 1), Maximum: &most}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return &typeSchema{Type: types{"integer"}, Minimum: new(int64(0)), Maximum: new(int64(1)<<t.Bits() - 1)}
	default:
		return nil
	}
}

// ofKind describes a type by its kind alone.
func ofKind(kind reflect.Kind) *typeSchema {
	switch kind {
	case reflect.Struct:
		return &typeSchema{Type: types{"object"}}
	case reflect.Map:
		return &typeSchema{Type: types{"null", "object"}}
	case reflect.Slice:
		return &typeSchema{Type: types{"null", "array"}}
	case reflect.Array:
		return &typeSchema{Type: types{"array"}}
	default:
		return &typeSchema{}
	}
}

// jsonField is a field of a struct as encoding/json writes it.
type jsonField struct {
	reflect.StructField
	name             string
	depth            int
	tagged           bool // its name is that of its tag
	optional, quoted bool
}

// fieldsOf returns the fields that encoding/json writes for a struct, in their order: of those with one name, the
// shallowest, and of those the one with a tag. None of several that are alike is written.
func fieldsOf(t reflect.Type) []jsonField {
	all := allFields(nil, t, 0, nil)
	best := make(map[string][]int)
	for i, field := range all {
		switch others := best[field.name]; {
		case len(others) == 0 || field.dominates(all[others[0]]):
			best[field.name] = []int{i}
		case !all[others[0]].dominates(field):
			best[field.name] = append(others, i)
		}
	}
	var fields []jsonField
	for i, field := range all {
		if chosen := best[field.name]; len(chosen) == 1 && chosen[0] == i {
			fields = append(fields, field)
		}
	}
	return fields
}

func (f jsonField) dominates(other jsonField) bool {
	if f.depth != other.depth {
		return f.depth < other.depth
	}
	return f.tagged && !other.tagged
}

// allFields appends the fields of a struct and of the structs that are embedded in it, except those of outer, in which
// it is embedded itself.
func allFields(fields []jsonField, t reflect.Type, depth int, outer []reflect.Type) []jsonField {
	if slices.Contains(outer, t) {
		return fields
	}
	outer = append(slices.Clip(outer), t)
	for i := range t.NumField() {
		field := t.Field(i)
		kind := field.Type
		if kind.Kind() == reflect.Pointer && kind.Name() == "" {
			kind = kind.Elem()
		}
		embedded := field.Anonymous && kind.Kind() == reflect.Struct
		tag := field.Tag.Get("json")
		if tag == "-" || !field.IsExported() && !embedded {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if embedded && name == "" {
			fields = allFields(fields, kind, depth+1, outer)
			continue
		}
		if !field.IsExported() {
			continue
		}
		has := func(option string) bool { return strings.Contains(","+options+",", ","+option+",") }
		fields = append(fields, jsonField{
			StructField: field, depth: depth, name: orDefault(name, field.Name), tagged: name != "",
			optional: has("omitempty") || has("omitzero"),
			quoted:   has("string") && kind.Kind() >= reflect.Bool && kind.Kind() <= reflect.Float64,
		})
	}
	return fields
}

func orDefault(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}
