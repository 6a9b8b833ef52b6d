package valueschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/jsontype"
)

// MaxBytes is the largest size of a schema, in bytes of JSON.
const MaxBytes = 64 << 10

// Of returns the JSON Schema (draft 2020-12) of the JSON that encoding/json writes for a type. The tag
// `jsonschema:"text"` of a field becomes its description. A type that writes its own JSON may be any value, one that
// writes its own text is a string, and a type that contains itself is described by its kind alone. The error names the
// part of the type that has no JSON, or the size of a schema above MaxBytes.
func Of(t reflect.Type) (json.RawMessage, error) {
	schema, err := (&inference{}).schemaOf(t)
	if err != nil {
		return nil, fmt.Errorf("schema of type %s: %w", t, err)
	}
	return encode(t, schema)
}

// OfDecoded returns the JSON Schema of the JSON that encoding/json reads into a type: fields may be missing or null,
// and others may be there. It is nil for a type that any value is read into. It returns the errors of Of.
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
		if !jsontype.IsKey(t.Key()) {
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

func (f *inference) addFields(schema *typeSchema, t reflect.Type) error {
	for _, field := range jsontype.Fields(t) {
		property, err := f.schemaOf(field.Go.Type)
		if err != nil {
			return err
		}
		if field.Quoted {
			property = &typeSchema{Type: types{"string"}}
			if field.Go.Type.Kind() == reflect.Pointer {
				property.addNull()
			}
		}
		property.name, property.Description = field.Name, field.Go.Tag.Get("jsonschema")
		schema.Properties = append(schema.Properties, property)
		if !field.CanBeAbsent {
			schema.Required = append(schema.Required, field.Name)
		}
	}
	return nil
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	bigIntType = reflect.TypeFor[big.Int]()
	numberType = reflect.TypeFor[json.Number]()
)

// standard returns the schema of a type that is described without its parts, or nil.
func standard(t reflect.Type) *typeSchema {
	switch {
	case t == timeType:
		return &typeSchema{Type: types{"string"}, Format: "date-time"}
	case t == bigIntType:
		return &typeSchema{Type: types{"integer"}}
	case t == numberType:
		return &typeSchema{Type: types{"number"}}
	case t.Kind() == reflect.Interface, jsontype.Has[json.Marshaler](t), jsontype.Has[json.Unmarshaler](t):
		return &typeSchema{}
	case jsontype.Has[encoding.TextMarshaler](t), jsontype.Has[encoding.TextUnmarshaler](t):
		return &typeSchema{Type: types{"string"}}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &typeSchema{Type: types{"null", "string"}, ContentEncoding: "base64"}
	default:
		return scalar(t)
	}
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
