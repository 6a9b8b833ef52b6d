package valueschema_test

import (
	"encoding/json"
	"errors"
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

// What encoding/json writes for a type fits the schema of the type.
func TestSchemaFitsWhatIsWritten(t *testing.T) {
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

// All faults come at once, in order, each with its place.
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
		"or value must be one of 'ann', 'bob'; or /name: is missing")
}

// A schema that cannot be used is refused when it is parsed, and none makes the program fetch anything.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		``, `{`, `7`, `{"type": "text"}`, `{"pattern": "("}`, `{"$ref": "#/$defs/none"}`, `{"$ref": "https://example.com/s"}`,
		`{"$ref": "file:///etc/hostname"}`, `{"$schema": "https://example.com/own"}`, `{"minimum": 1e999999999}`,
		`{"description": "` + strings.Repeat("x", valueschema.MaxBytes) + `"}`,
	} {
		_, err := valueschema.Parse([]byte(bad))
		require.Error(t, err, bad)
		assert.Less(t, len(err.Error()), 2000)
	}
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

func TestDescriptionsOfFields(t *testing.T) {
	t.Parallel()
	text, err := valueschema.Of(reflect.TypeFor[item]())
	require.NoError(t, err)
	assert.JSONEq(t, `{"type": "object", "required": ["sku", "count"], "additionalProperties": false, "properties": {
		"sku": {"type": "string", "description": "as printed on the label"},
		"count": {"type": "integer", "minimum": 0, "maximum": 255}}}`, string(text))
}
