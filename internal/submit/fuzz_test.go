package submit

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzStoredTexts decodes any bytes as fields of records: policies, limits, budgets. The cache of policies returns the
// same as decoding.
func FuzzStoredTexts(f *testing.F) {
	for _, seed := range []string{
		"", "null", `{"codec":"raw","start_to_close_ms":9223372036854775807,"heartbeat_timeout_ms":-1,"input":{"list":[{"input":true},{"const":null}]}}`,
		`{"input":{"struct":[{"name":"a","value":{"node":"b"}}]},"child":{"max_items":-1},"cases":{"names":["a"],"default":true}}`, `{"input":{"first":[]}}`, `{"input":{}}`,
		"1 words\n[{\"q\":\"id\",\"n\":\"crm\",\"k\":\"\",\"r\":1,\"w\":1000,\"c\":2}]", "1 words", "x\n[", `[{"name":"b","dimensions":[{"name":"tokens","hard":1}]}]`, `[null]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plan, err := DecodePolicy(data)
		var cache PlanCache
		for range 2 {
			same, sameErr := cache.Decode(data)
			if (err == nil) != (sameErr == nil) || err == nil && !reflect.DeepEqual(plan, same) {
				t.Errorf("%q is %+v, %v, and of the cache %+v, %v", data, plan, err, same, sameErr)
			}
		}
		if limits, err := DecodeLimits(string(data)); err == nil {
			text, err := encodeLimits(limits, "words")
			again, decodeErr := DecodeLimits(text)
			if err != nil || decodeErr != nil || len(limits) != len(again) || len(limits) > 0 && !reflect.DeepEqual(limits, again) {
				t.Errorf("%q is %+v, and written %q %v, %+v, %v", data, limits, text, err, again, decodeErr)
			}
		}
		if budgets, err := DecodeBudgets(string(data)); err == nil && len(budgets) > 0 {
			text, err := json.Marshal(budgets)
			again, decodeErr := DecodeBudgets(string(text))
			if second, _ := json.Marshal(again); err != nil || decodeErr != nil || string(second) != string(text) {
				t.Errorf("%q is written %q, and then %q", data, text, second)
			}
		}
	})
}
