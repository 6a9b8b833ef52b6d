package valueschema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
)

type base struct {
	Region string `json:"region"`
}

type item struct {
	SKU   string `json:"sku" jsonschema:"as printed on the label"`
	Count uint8  `json:"count"`
}

// order has a field for each way in which encoding/json and the library for schemas differ by default.
type order struct {
	base
	ID       uuid.UUID        `json:"id"`
	Amount   int64            `json:"amount"`
	Large    uint64           `json:"large,string"`
	Huge     *big.Int         `json:"huge,omitempty"`
	At       time.Time        `json:"at"`
	Within   time.Duration    `json:"within,omitempty"`
	Photo    []byte           `json:"photo,omitempty"`
	Raw      json.RawMessage  `json:"raw,omitempty"`
	Items    []item           `json:"items"`
	ByYear   map[int]item     `json:"by_year,omitempty"`
	Labels   map[string]*item `json:"labels,omitempty"`
	Anything any              `json:"anything,omitempty"`
	Pointer  *string          `json:"pointer"`
	hidden   string
	Left     string `json:"-"`
}

type tree struct {
	Name     string `json:"name"`
	Children []tree `json:"children"`
}

func full() order {
	return order{
		base: base{Region: "eu"}, ID: uuid.MustParse("7d444840-9dc0-11d1-b245-5ffdce74fad2"), Amount: 1<<63 - 1,
		Large: 1<<64 - 1, Huge: new(big.Int).Lsh(big.NewInt(1), 200), At: time.Unix(1700000000, 5).UTC(),
		Within: time.Hour, Photo: []byte{0, 1, 2}, Raw: json.RawMessage(`{"a":[1]}`), Items: []item{{SKU: "a", Count: 255}},
		ByYear: map[int]item{2026: {SKU: "b"}}, Labels: map[string]*item{"x": nil}, Anything: []string{"y"}, hidden: "h",
	}
}

func schemaOf(t *testing.T, value any) *valueschema.Schema {
	t.Helper()
	text, err := valueschema.Of(reflect.TypeOf(value))
	require.NoError(t, err)
	schema, err := valueschema.Parse(text)
	require.NoError(t, err, "%s", text)
	return schema
}

// The JSON that encoding/json writes for a type fits the schema of the type.
func TestSchemaAcceptsEncodedValues(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{
		"full": full(), "zero": order{}, "tree": tree{Children: []tree{{Name: "leaf"}}}, "nil slice": []int(nil),
		"text": "x", "number": 7, "nothing": struct{}{}, "pointer": (*item)(nil), "map": map[string]int{"a": 1},
	} {
		encoded, err := json.Marshal(value)
		require.NoError(t, err)
		assert.NoError(t, schemaOf(t, value).Check(name, encoded), name)
	}
}

// All faults are reported together, in order, each with its location.
func TestCheckNamesAllFaults(t *testing.T) {
	t.Parallel()
	err := schemaOf(t, order{}).Check(`input of flow "order"`, []byte(`{
		"region": 5, "id": "x", "amount": 9223372036854775808, "large": 7, "at": "noon", "photo": 1,
		"items": [{"sku":"a","count":256},{"sku":1,"count":-1},{},[],[],[],[],[],[],[],{"sku":"","count":0,"extra/~":1}],
		"by_year": {"2026": {"sku": "a"}}, "Pointer": null}`))
	var invalid *fabrictype.ValueError
	require.ErrorAs(t, err, &invalid)
	places := make([]string, len(invalid.Faults))
	for i, fault := range invalid.Faults {
		places[i] = fault.Pointer
	}
	assert.Equal(t, []string{
		"/Pointer", "/amount", "/at", "/by_year/2026/count", "/items/0/count", "/items/1/count", "/items/1/sku",
		"/items/2/count", "/items/2/sku", "/items/3", "/items/4", "/items/5", "/items/6", "/items/7", "/items/8", "/items/9",
		"/items/10/extra~1~0", "/large", "/photo", "/pointer", "/region",
	}, places)
	text := err.Error()
	assert.True(t, strings.HasPrefix(text, `input of flow "order": /Pointer: is not in the schema; /amount: `), text)
	assert.Contains(t, text, "/items/2/sku: is missing")
	assert.Contains(t, text, "/region: got number, want string")
}

// Integers are compared as they are written: neither 2^53 nor 2^63 rounds.
func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	integer := schemaOf(t, int64(0))
	for _, good := range []string{"9007199254740993", "9223372036854775807", "-9223372036854775808", "12e2"} {
		assert.NoError(t, integer.Check("n", []byte(good)), good)
	}
	for _, bad := range []string{"9223372036854775808", "-9223372036854775809", "1.5", "1e400", `"1"`, "null"} {
		assert.Error(t, integer.Check("n", []byte(bad)), bad)
	}
	constant, err := valueschema.Parse([]byte(`{"const": 9007199254740993}`))
	require.NoError(t, err)
	require.NoError(t, constant.Check("n", []byte("9007199254740993")))
	require.Error(t, constant.Check("n", []byte("9007199254740992")))
}

// Texts that are small and would cost much are refused, as are values that are not JSON.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	anything, err := valueschema.Parse([]byte(`{}`))
	require.NoError(t, err)
	for text, want := range map[string]string{
		"":                             "v: is not JSON: it is empty",
		`{"a":1`:                       "v: is not JSON: unexpected EOF",
		`{"a":x}`:                      "v: is not JSON: invalid character 'x' looking for beginning of value, byte 6",
		`1 2`:                          "v: has more than one JSON value: byte 3",
		`{"a":[0,1e999999999]}`:        "v: /a/1: number has more than 1000 digits or an exponent beyond 1000",
		strings.Repeat("9", 1001):      "v: number has more than 1000 digits or an exponent beyond 1000",
		strings.Repeat("[", 1_000_000): "v: is not JSON: invalid character '[' exceeded max depth, byte 10001",
	} {
		require.EqualError(t, anything.Check("v", []byte(text)), want)
	}
}

// A value with very many faults lists the first ones and counts the others.
func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	err := schemaOf(t, []string{}).Check("v", []byte("["+strings.Repeat("1,", 99_999)+"1]"))
	var invalid *fabrictype.ValueError
	require.ErrorAs(t, err, &invalid)
	assert.Len(t, invalid.Faults, 100)
	assert.Equal(t, 99_900, invalid.More)
	assert.Equal(t, "/99", invalid.Faults[99].Pointer)
	assert.True(t, strings.HasSuffix(err.Error(), "; and 99900 more faults"))
}

func TestAlternativesAreOneFault(t *testing.T) {
	t.Parallel()
	schema, err := valueschema.Parse([]byte(`{"properties": {"by": {"anyOf": [{"type": "null"}, {"enum": ["ann", "bob"]},
		{"type": "object", "required": ["name"]}]}}}`))
	require.NoError(t, err)
	require.NoError(t, schema.Check("v", []byte(`{"by": "ann"}`)))
	err = schema.Check("v", []byte(`{"by": {}}`))
	require.EqualError(t, err, "v: /by: fits no alternative: got object, want null; "+
		`or must be one of "ann","bob"; or /name: is missing`)
}

// Formats are asserted. A value of another type has any format.
func TestFormats(t *testing.T) {
	t.Parallel()
	for format, texts := range map[string]struct{ good, bad []string }{
		"date-time": {
			[]string{"2026-11-20T08:00:00Z", "2026-11-20t08:00:00.123456789+01:30", "2016-12-31T23:59:60Z"},
			[]string{"noon", "2026-11-20", "2026-11-20T08:00:00", "2026-11-31T08:00:00Z", "2026-11-20T24:00:00Z", "2026-11-20 08:00:00Z"},
		},
		"date":   {[]string{"2026-11-20", "2024-02-29"}, []string{"2026-2-3", "2023-02-29", "20.11.2026", ""}},
		"email":  {[]string{"ann@example.com", "a+b@mail.example.com"}, []string{"ann", "@example.com", "ann@", "a b@example.com"}},
		"uri":    {[]string{"https://example.com/a?b=c#d", "urn:isbn:0451450523"}, []string{"/a/b", "example.com", "https://[::1", "%"}},
		"uuid":   {[]string{"7d444840-9dc0-11d1-b245-5ffdce74fad2"}, []string{"7d4448409dc011d1b2455ffdce74fad2", "7d444840-9dc0-11d1-b245-5ffdce74fadg", ""}},
		"int64":  {[]string{"a text"}, nil},
		"future": {[]string{"an unknown format allows anything"}, nil},
	} {
		schema, err := valueschema.Parse([]byte(`{"format": "` + format + `"}`))
		require.NoError(t, err)
		assert.NoError(t, schema.Check("v", []byte("7")), "%s of a number", format)
		for _, text := range texts.good {
			assert.NoError(t, schema.Check("v", encoded(t, text)), "%s %q", format, text)
		}
		for _, text := range texts.bad {
			err := schema.Check("v", encoded(t, text))
			assert.EqualError(t, err, fmt.Sprintf("v: %q is not a valid %s", text, format))
		}
	}
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return data
}

// References lead to parts of the schema, also from within themselves.
func TestReferences(t *testing.T) {
	t.Parallel()
	schema, err := valueschema.Parse([]byte(`{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$ref": "#/$defs/tree",
		"$defs": {
			"tree": {"type": "object", "required": ["name"], "properties": {
				"name": {"$ref": "#name"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
			"a name/~": {"$anchor": "name", "type": "string", "minLength": 1}
		}
	}`))
	require.NoError(t, err)
	require.NoError(t, schema.Check("v", []byte(`{"name":"a","children":[{"name":"b","children":[]}]}`)))
	require.EqualError(t, schema.Check("v", []byte(`{"name":1,"children":[{"children":[7]},{"name":""}]}`)),
		"v: /children/0/children/0: got number, want object; /children/0/name: is missing; "+
			"/children/1/name: length must be >= 1, but got 0; /name: got number, want string")
}

// Each kind of fault has the location of the wrong or missing value, and names the bound as the schema has it.
func TestFaultsOfKeywords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":["null","integer"]}`, `"x"`, "got string, want null or integer"},
		{`{"maximum":9223372036854775806}`, `9223372036854775807`, "maximum: got 9223372036854775807, want 9223372036854775806"},
		{`{"exclusiveMinimum":1.5}`, `1.50`, "exclusiveMinimum: got 1.50, want 1.5"},
		{`{"multipleOf":3}`, `9007199254740993.5`, "multipleOf: got 9007199254740993.5, want 3"},
		{`{"const":9007199254740993}`, `9007199254740992`, "must be 9007199254740993"},
		{`{"const":null}`, `{}`, "must be null"},
		{`{"enum":[1,"<b>",[2]]}`, `2`, `must be one of 1,"<b>",[2]`},
		{`{"required":["a/b","c~d"]}`, `{}`, "/a~1b: is missing; /c~0d: is missing"},
		{`{"dependentRequired":{"a":["b c"]}}`, `{"a":1}`, "/b c: is missing"},
		{`{"properties":{"a":true},"patternProperties":{"^x":true},"additionalProperties":false}`, `{"a":1,"x1":1,"b":1,"é":1}`, "/b: is not in the schema; /é: is not in the schema"},
		{`{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"a":1,"b":1}`, "/b: is not in the schema"},
		{`{"properties":{"a":false}}`, `{"a":1}`, "/a: is not allowed"},
		{`{"contains":{"type":"string"}}`, `[1,2]`, "has fewer items that fit contains than it must have"},
		{`{"not":{"type":"number"}}`, `1`, "fits the schema of not"},
		{`{"oneOf":[{"type":"number"},{"minimum":1}]}`, `1`, "fits more than one alternative of oneOf"},
		{`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`, "/b: is missing"},
		{`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, "/ab: length must be <= 1, but got 2"},
		{`{"properties":{"anyOf":{"minimum":3,"multipleOf":2}}}`, `{"anyOf":1}`, "/anyOf: minimum: got 1, want 3; /anyOf: multipleOf: got 1, want 2"},
		{`{"$id":"https://example.com/s","properties":{"a":{"$id":"t","required":["b"]}}}`, `{"a":{}}`, "/a/b: is missing"},
		{`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, `{"minimum":"x"}`, "/minimum: expected number, but got string"},
	} {
		schema, err := valueschema.Parse([]byte(c.schema))
		require.NoError(t, err, c.schema)
		assert.EqualError(t, schema.Check("v", []byte(c.value)), "v: "+c.want, c.schema)
	}
}

// A schema of another draft is refused by the name of the draft, wherever it is named.
func TestOtherDraftsAreRefused(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"https://json-schema.org/draft/2020-12/schema":  "",
		"https://json-schema.org/draft/2020-12/schema#": "",
		"https://json-schema.org/draft/2019-09/schema":  "draft 2019-09 is not supported",
		"http://json-schema.org/draft-07/schema#":       "draft 7 is not supported",
		"https://json-schema.org/draft-07/schema":       "draft 7 is not supported",
		"http://json-schema.org/draft-06/schema#":       "draft 6 is not supported",
		"http://json-schema.org/draft-04/schema#":       "draft 4 is not supported",
		"https://example.com/own":                       `"https://example.com/own" is not a draft of JSON Schema`,
	} {
		for place, schema := range map[string]string{
			"":         `{"$schema": "` + uri + `"}`,
			"/$defs/a": `{"$defs": {"a": {"$id": "a", "$schema": "` + uri + `"}}}`,
		} {
			_, err := valueschema.Parse([]byte(schema))
			if want == "" {
				require.NoError(t, err, schema)
				continue
			}
			require.EqualError(t, err, "schema is not usable: "+place+"/$schema: "+want+": schemas are of draft 2020-12")
		}
	}
	_, err := valueschema.Parse([]byte(`{"const": {"$schema": "http://json-schema.org/draft-07/schema#"}}`))
	require.NoError(t, err, "a value is not a schema")
}

// A schema that cannot be used is refused when it is parsed, and none makes the program fetch anything.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		``, `{`, `7`, `{"type": "text"}`, `{"pattern": "("}`, `{"$ref": "#/$defs/none"}`, `{"$ref": "https://example.com/s"}`,
		`{"$ref": "file:///etc/hostname"}`, `{"$schema": "https://example.com/own"}`, `{"minimum": 1e999999999}`,
		`{"description": "` + strings.Repeat("x", valueschema.MaxBytes) + `"}`, `{"$ref": "#"}`,
	} {
		_, err := valueschema.Parse([]byte(bad))
		require.Error(t, err, bad)
		assert.Less(t, len(err.Error()), 2000)
	}
}

// The error of a schema has the location of the fault, and no path of this machine.
func TestParseErrorNamesLocation(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"properties": {"a": {"type": "text"}}}`: "/properties/a/type: fits no alternative: ",
		nested(256):                         "it is nested more than 256 deep",
		`{"minimum": "x"}`:                  "/minimum: expected number, but got string",
		`{"$ref": "#/$defs/none"}`:          "schema:///#/$defs/none not found",
		`{"$ref": "https://example.com/s"}`: "a reference out of the schema is not followed: https://example.com/s",
	} {
		_, err := valueschema.Parse([]byte(schema))
		require.Error(t, err)
		assert.True(t, strings.HasPrefix(err.Error(), "schema is not usable: "+want), err)
	}
}

// nested is a schema with the given number of nested schemas.
func nested(levels int) string {
	return strings.Repeat(`{"not":`, levels) + `{"minLength":1}` + strings.Repeat("}", levels)
}

func TestDepthOfSchemas(t *testing.T) {
	t.Parallel()
	schema, err := valueschema.Parse([]byte(nested(255)))
	require.NoError(t, err)
	require.NoError(t, schema.Check("v", []byte(`""`)))
	require.Error(t, schema.Check("v", []byte(`"x"`)))
}

func TestTypesWithoutJSON(t *testing.T) {
	t.Parallel()
	for _, value := range []any{make(chan int), func() {}, struct{ C complex128 }{}} {
		_, err := valueschema.Of(reflect.TypeOf(value))
		require.Error(t, err)
		var fault *fabrictype.ValueError
		require.False(t, errors.As(err, &fault))
	}
}

type shadowed struct {
	base
	*Deep
	Region int `json:"region"`
	Key    string
}

// Deep is embedded.
type Deep struct {
	Key   int
	Count *int `json:"count,string"`
	*shadowed
}

type left struct{ Same string }

type right struct{ Same string }

// Fields are those that encoding/json writes, of structs that are embedded as well.
func TestFieldsMatchEncodingJSON(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		`{"type":"object","properties":{"count":{"type":["null","string"]},"region":{"type":"integer","format":"int64"},
			"Key":{"type":"string"}},"required":["count","region","Key"],"additionalProperties":false}`: shadowed{},
		`{"type":"object","additionalProperties":false}`: struct {
			left
			right
		}{},
		`{"type":["null","object"],"additionalProperties":{"type":"array","items":true,"minItems":2,"maxItems":2}}`: map[string][2]any{},
		`{"type":"object"}`: tree{},
		`{"type":"integer","minimum":-32768,"maximum":32767}`:                                     int16(0),
		`{"type":"integer","minimum":0,"maximum":4294967295}`:                                     uint32(0),
		`{"type":"integer","minimum":0,"format":"uint64"}`:                                        uint64(0),
		`{"type":["null","array"],"items":{"type":["null","string"],"contentEncoding":"base64"}}`: [][]byte{},
	} {
		text, err := valueschema.Of(reflect.TypeOf(value))
		require.NoError(t, err)
		require.JSONEq(t, want, string(text))
	}
}

func TestDescriptionsOfFields(t *testing.T) {
	t.Parallel()
	text, err := valueschema.Of(reflect.TypeFor[item]())
	require.NoError(t, err)
	assert.JSONEq(t, `{"type": "object", "required": ["sku", "count"], "additionalProperties": false, "properties": {
		"sku": {"type": "string", "description": "as printed on the label"},
		"count": {"type": "integer", "minimum": 0, "maximum": 255}}}`, string(text))
}

func TestHash(t *testing.T) {
	t.Parallel()
	type inner struct {
		N int `json:"n" jsonschema:"how many"`
	}
	type other struct {
		N int `json:"n"`
	}
	of := valueschema.Hash
	first := of(reflect.TypeFor[struct {
		A string  `json:"a"`
		B []inner `json:"b"`
	}]())
	require.Len(t, first, valueschema.HashBytes)
	require.Equal(t, first, of(reflect.TypeFor[struct {
		B []*other `json:"b,omitempty"`
		A *string  `json:"a"`
	}]()), "order, descriptions, names and pointers do not count")
	for _, differs := range []reflect.Type{
		reflect.TypeFor[struct {
			A int     `json:"a"`
			B []inner `json:"b"`
		}](),
		reflect.TypeFor[struct {
			A string `json:"a"`
			B inner  `json:"b"`
		}](),
		reflect.TypeFor[struct {
			A string  `json:"A"`
			B []inner `json:"b"`
		}](),
		reflect.TypeFor[struct {
			A string `json:"a"`
		}](),
		reflect.TypeFor[any](), reflect.TypeFor[map[string]int](),
	} {
		require.NotEqual(t, first, of(differs), differs)
	}
	require.Empty(t, of(reflect.TypeFor[chan int]()))
}
