package valueschema_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
)

// FuzzSchema checks any values against any schemas: both are refused with a reason, or used. A value that is not JSON
// satisfies no schema.
func FuzzSchema(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"a":{"type":"integer","format":"int64"}},"required":["a"]}`, `{"a":9223372036854775808}`},
		{`{"$ref":"#"}`, `{}`}, {`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, `1`},
		{`{"$ref":"https://example.com/x"}`, `1`}, {`{"$ref":"file:///etc/passwd"}`, `1`}, {`{"$schema":"http://json-schema.org/draft-04/schema#"}`, `1`},
		{`{"pattern":"(a+)+$"}`, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"`}, {`{"pattern":"("}`, `"x"`}, {`{"multipleOf":0}`, `1`}, {`{"multipleOf":1e-999}`, `1e999`},
		{`{"uniqueItems":true}`, `[1,1.0,{"a":1},{"a":1}]`}, {`{"maxLength":1e1000}`, `""`}, {`{"items":[{}],"additionalItems":false}`, `[1,2]`}, {`true`, `null`}, {`false`, `{}`},
		{`{"dependentSchemas":{"a":{"$dynamicRef":"#x"}},"$dynamicAnchor":"x"}`, `{"a":1}`}, {`{"unevaluatedProperties":false,"anyOf":[{"properties":{"a":true}}]}`, `{"a":1,"b":2}`},
		{`{"format":"date-time"}`, `"2026-11-20T08:00:00Z"`}, {`{"format":"regex"}`, `"["`}, {`{"$id":"x","$anchor":"y","$ref":"x#y"}`, `1`}, {`{"contentMediaType":"application/json","contentSchema":{}}`, `"{"`},
		{`{"propertyNames":{"format":"email"}}`, `{"@":1}`}, {`{"$vocabulary":{"x":true}}`, `1`}, {`[]`, ``}, {``, `{} {}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		s, err := valueschema.Parse(schema)
		if err != nil {
			require.Nil(t, s)
			return
		}
		require.True(t, json.Valid(schema))
		if err = s.Check("value", value); err == nil {
			require.True(t, json.Valid(value), "%q", value)
			return
		}
		var invalid *fabrictype.ValueError
		require.ErrorAs(t, err, &invalid)
		require.NotEmpty(t, invalid.Faults)
		require.Equal(t, err.Error(), s.Check("value", value).Error(), "another check says something else")
	})
}
