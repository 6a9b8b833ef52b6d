package valueschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Bounds of a number in a value or a schema. The validator computes with exact fractions: a short text such as
// 1e999999999 would take all memory.
const (
	maxDigits   = 1000
	maxExponent = 1000
)

// Schema is a compiled schema. Concurrent use is safe.
type Schema struct {
	compiled *jsonschema.Schema
	document any
}

// Parse compiles a JSON Schema of draft 2020-12. Formats are checked. A reference must stay within the schema; nothing
// is fetched. The error describes the fault of the schema: that its $schema names another draft, for example, or that
// it has more than MaxBytes.
func Parse(schema []byte) (*Schema, error) {
	if len(schema) > MaxBytes {
		return nil, fmt.Errorf("schema has %d bytes, more than %d", len(schema), MaxBytes)
	}
	document, fault := decode(schema)
	if fault != nil {
		return nil, fmt.Errorf("schema is not usable: %s", fault)
	}
	if err := activityspec.CheckSchema(document); err != nil {
		return nil, fmt.Errorf("schema is not usable: %w", err)
	}
	const address = "schema:///"
	compiler := jsonschema.NewCompiler()
	compiler.LoadURL = refuseToLoad
	compiler.AssertFormat = true
	compiler.Formats = map[string]func(any) bool{
		formatInt64: within(math.MinInt64, math.MaxInt64), formatUint64: within(0, math.MaxUint64),
	}
	if err := compiler.AddResource(address, bytes.NewReader(schema)); err != nil {
		return nil, fmt.Errorf("schema is not usable: %w", err)
	}
	compiled, err := compiler.Compile(address)
	if err != nil {
		return nil, fmt.Errorf("schema is not usable: %s", reasonOf(err))
	}
	return &Schema{compiled: compiled, document: document}, nil
}

// maxReasons bounds the faults that the error of a schema lists.
const maxReasons = 3

// reasonOf returns the reason why a schema does not compile, with the locations that the draft does not allow.
func reasonOf(err error) string {
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		faults := faultsOf("", invalid, nil, nil)
		texts := make([]string, min(len(faults.Faults), maxReasons))
		for i := range texts {
			texts[i] = faults.Faults[i].String()
		}
		return strings.Join(texts, "; ")
	}
	if refused, ok := errors.AsType[*jsonschema.SchemaError](err); ok {
		err = refused.Err
	}
	return strings.TrimPrefix(err.Error(), "jsonschema: ")
}

// Formats of OpenAPI for the integers of Go.
const (
	formatInt64  = "int64"
	formatUint64 = "uint64"
)

// within checks that a number is neither too small nor too large. Whether it is an integer is left to the schema's
// type.
func within(least int64, most uint64) func(value any) bool {
	low, high := new(big.Rat).SetInt64(least), new(big.Rat).SetUint64(most)
	return func(value any) bool {
		text, isNumber := value.(json.Number)
		if !isNumber {
			return true
		}
		number, ok := new(big.Rat).SetString(string(text))
		return ok && number.Cmp(low) >= 0 && number.Cmp(high) <= 0
	}
}

// refuseToLoad refuses references out of the schema.
func refuseToLoad(url string) (io.ReadCloser, error) {
	return nil, fmt.Errorf("a reference out of the schema is not followed: %s", url)
}

// Check returns a *fabrictype.ValueError with all faults of a JSON value, or nil. Numbers of any size are compared
// exactly. The caller bounds the size of the value.
func (s *Schema) Check(subject string, value []byte) error {
	document, fault := decode(value)
	if fault != nil {
		return &fabrictype.ValueError{Subject: subject, Faults: []fabrictype.ValueFault{*fault}}
	}
	err := s.compiled.Validate(document)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return &fabrictype.ValueError{Subject: subject, Faults: []fabrictype.ValueFault{{Message: err.Error()}}}
	}
	return faultsOf(subject, invalid, s, document)
}

// decode parses one JSON value. It returns a fault for malformed JSON or a number beyond the bounds.
func decode(text []byte) (any, *fabrictype.ValueFault) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, &fabrictype.ValueFault{Message: "is not JSON: " + notJSON(err, len(text))}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		message := fmt.Sprintf("has more than one JSON value: byte %d", decoder.InputOffset())
		return nil, &fabrictype.ValueFault{Message: message}
	}
	if err := activityspec.CheckJSON(text); err != nil {
		return nil, &fabrictype.ValueFault{Message: err.Error()}
	}
	return value, oversizedNumber(value, "")
}

func notJSON(err error, size int) string {
	var syntax *json.SyntaxError
	switch {
	case size == 0:
		return "it is empty"
	case errors.As(err, &syntax):
		return fmt.Sprintf("%s, byte %d", syntax, syntax.Offset)
	default:
		return err.Error()
	}
}

func oversizedNumber(value any, pointer string) *fabrictype.ValueFault {
	switch v := value.(type) {
	case json.Number:
		if !withinBounds(string(v)) {
			return &fabrictype.ValueFault{
				Pointer: pointer,
				Message: fmt.Sprintf("number has more than %d digits or an exponent beyond %d", maxDigits, maxExponent),
			}
		}
	case []any:
		for i, item := range v {
			if fault := oversizedNumber(item, ""); fault != nil {
				fault.Pointer = pointer + "/" + strconv.Itoa(i) + fault.Pointer
				return fault
			}
		}
	case map[string]any:
		for name, property := range v {
			if fault := oversizedNumber(property, ""); fault != nil {
				fault.Pointer = pointer + "/" + escaped(name) + fault.Pointer
				return fault
			}
		}
	}
	return nil
}

func withinBounds(number string) bool {
	digits, exponent, has := strings.Cut(strings.ToLower(number), "e")
	if len(digits) > maxDigits {
		return false
	}
	if !has {
		return true
	}
	n, err := strconv.Atoi(exponent)
	return err == nil && n >= -maxExponent && n <= maxExponent
}
