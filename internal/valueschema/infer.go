package valueschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// MaxBytes is the largest size of a schema, in bytes of JSON.
const MaxBytes = 64 << 10

// Of returns the JSON Schema (draft 2020-12) of what encoding/json writes for a type. The tag `jsonschema:"text"` of a
// field becomes its description. A type that writes its own JSON may be any value, one that writes its own text is a
// string, and a type that contains itself is described by its kind alone. The error names the part of the type that has
// no JSON, or the size of a schema above MaxBytes.
func Of(t reflect.Type) (json.RawMessage, error) {
	known := knownTypes{}
	schema, err := known.schemaOf(t)
	if err != nil {
		return nil, err
	}
	return encode(t, schema)
}

// OfDecoded returns the JSON Schema of what encoding/json reads into a type: fields may be missing or null, and others
// may be there. It is nil for a type that any value is read into. The error is that of Of.
func OfDecoded(t reflect.Type) (json.RawMessage, error) {
	schema, err := knownTypes{}.schemaOf(t)
	if err != nil {
		return nil, err
	}
	loosen(schema, make(map[*jsonschema.Schema]bool))
	if schema.Type == "" && len(schema.Types) == 0 {
		return nil, nil
	}
	return encode(t, schema)
}

// loosen turns the schema of what is written into that of what is read.
func loosen(schema *jsonschema.Schema, done map[*jsonschema.Schema]bool) {
	if schema == nil || done[schema] {
		return
	}
	done[schema] = true
	if schema.Type != "" {
		schema.Types, schema.Type = []string{schema.Type}, ""
	}
	if len(schema.Types) > 0 && !slices.Contains(schema.Types, "null") {
		schema.Types = append([]string{"null"}, schema.Types...)
	}
	schema.Required = nil
	if len(schema.Properties) > 0 || isNever(schema.AdditionalProperties) {
		schema.AdditionalProperties = nil
	}
	loosen(schema.AdditionalProperties, done)
	loosen(schema.Items, done)
	schema.MinItems, schema.MaxItems = nil, nil
	for _, property := range schema.Properties {
		loosen(property, done)
	}
}

// isNever reports whether a schema is one that no value satisfies.
func isNever(schema *jsonschema.Schema) bool {
	return schema != nil && schema.Not != nil
}

func encode(t reflect.Type, schema *jsonschema.Schema) (json.RawMessage, error) {
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("schema of type %s: %w", t, err)
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("schema of type %s has %d bytes, more than %d", t, len(data), MaxBytes)
	}
	return data, nil
}

// knownTypes has the schemas of types that the library would describe otherwise than encoding/json writes them. A nil
// schema marks a type whose parts are being looked at.
type knownTypes map[reflect.Type]*jsonschema.Schema

func (k knownTypes) schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	if err := k.visit(t); err != nil {
		return nil, err
	}
	return k.infer(t)
}

func (k knownTypes) infer(t reflect.Type) (*jsonschema.Schema, error) {
	schemas := make(map[reflect.Type]*jsonschema.Schema, len(k))
	for known, schema := range k {
		if schema != nil {
			schemas[known] = schema
		}
	}
	return jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: schemas})
}

// visit stores the schemas of a type's parts before that of the type.
func (k knownTypes) visit(t reflect.Type) error {
	if _, seen := k[t]; seen {
		if k[t] == nil {
			k[t] = ofKind(t.Kind())
		}
		return nil
	}
	if schema := standard(t); schema != nil {
		k[t] = schema
		return nil
	}
	k[t] = nil
	if err := k.visitParts(t); err != nil {
		return err
	}
	if k[t] == nil {
		delete(k, t)
	}
	return nil
}

func (k knownTypes) visitParts(t reflect.Type) error {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return k.visit(t.Elem())
	case reflect.Map:
		return k.visitMap(t)
	case reflect.Struct:
		return k.visitStruct(t)
	default:
		return nil
	}
}

// visitMap describes maps with numbers as keys, which encoding/json writes as texts.
func (k knownTypes) visitMap(t reflect.Type) error {
	if err := k.visit(t.Elem()); err != nil {
		return err
	}
	if key := t.Key().Kind(); key < reflect.Int || key > reflect.Uintptr {
		return nil
	}
	elem, err := k.infer(t.Elem())
	if err != nil {
		return err
	}
	k[t] = &jsonschema.Schema{Types: []string{"null", "object"}, AdditionalProperties: elem}
	return nil
}

// visitStruct describes structs with fields that encoding/json writes as texts because of their tags.
func (k knownTypes) visitStruct(t reflect.Type) error {
	var quoted []string
	for field := range fieldsOf(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" && options == "" {
			continue
		}
		if err := k.visit(field.Type); err != nil {
			return err
		}
		if isQuoted(field.Type, options) {
			quoted = append(quoted, orDefault(name, field.Name))
		}
	}
	if len(quoted) == 0 || k[t] != nil {
		return nil
	}
	schema, err := k.infer(t)
	if err != nil {
		return err
	}
	for _, name := range quoted {
		if property := schema.Properties[name]; property != nil {
			schema.Properties[name] = &jsonschema.Schema{Type: "string", Description: property.Description}
		}
	}
	k[t] = schema
	return nil
}

func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			field := t.Field(i)
			if (field.IsExported() || field.Anonymous) && !yield(field) {
				return
			}
		}
	}
}

func isQuoted(t reflect.Type, options string) bool {
	kind := t.Kind()
	number := kind >= reflect.Bool && kind <= reflect.Float64
	return number && strings.Contains(","+options+",", ",string,")
}

func orDefault(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	bigIntType = reflect.TypeFor[big.Int]()
	numberType = reflect.TypeFor[json.Number]()
)

// standard returns the schema of a type that needs no look at its parts, or nil.
func standard(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == timeType:
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case t == bigIntType:
		return &jsonschema.Schema{Type: "integer"}
	case t == numberType:
		return &jsonschema.Schema{Type: "number"}
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		return nil
	case either[json.Marshaler](t) || either[json.Unmarshaler](t):
		return &jsonschema.Schema{}
	case either[encoding.TextMarshaler](t) || either[encoding.TextUnmarshaler](t):
		return &jsonschema.Schema{Type: "string"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}
	default:
		return ofInteger(t.Kind())
	}
}

// either reports whether a type or its pointer has the methods of I.
func either[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Implements(i) || reflect.PointerTo(t).Implements(i)
}

// ofInteger bounds integers of 64 bits, which the library leaves open: encoding/json refuses to read larger ones. A
// format names the bound, as in OpenAPI, since the library's minimum and maximum round such numbers.
func ofInteger(kind reflect.Kind) *jsonschema.Schema {
	switch kind {
	case reflect.Int, reflect.Int64:
		return &jsonschema.Schema{Type: "integer", Format: formatInt64}
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return &jsonschema.Schema{Type: "integer", Format: formatUint64, Minimum: new(0.0)}
	default:
		return nil
	}
}

// ofKind describes a type that contains itself.
func ofKind(kind reflect.Kind) *jsonschema.Schema {
	switch kind {
	case reflect.Struct:
		return &jsonschema.Schema{Type: "object"}
	case reflect.Map:
		return &jsonschema.Schema{Types: []string{"null", "object"}}
	case reflect.Slice:
		return &jsonschema.Schema{Types: []string{"null", "array"}}
	default:
		return &jsonschema.Schema{}
	}
}
