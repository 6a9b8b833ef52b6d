package enginetest_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// A payload that only resembles JSON does not corrupt the list of the other payloads.
func TestCollectedPayloadsAreJSON(t *testing.T) {
	payloads := []string{
		`1`, `-0.5e+10`, `0`, `-0`, `10.25`, `1E3`, `"a\"b\\"`, `"\\"`, `"é, nan"`, `[]`, `{}`, `{"a":[1,{"b":null}],"c":true}`, ` [ 1 , false ] `,
		`007`, `nan`, `NaN`, `-inf`, `Infinity`, `0x10`, `1.`, `.5`, `+1`, `[01]`, `{"a":nan}`, "\"a\nb\"", "[\"a\x01\"]", `{"a":"b`, `text`, `1 2`,
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit(nil, map[string]waitSpec{"w": {count: len(payloads), collect: true}})
		for i, payload := range payloads {
			l.send("w", "name", string(rune('a'+i)), payload)
		}
		var list []struct {
			Payload json.RawMessage `json:"payload"`
		}
		require.NoError(t, json.Unmarshal([]byte(l.result("w")), &list), l.result("w"))
		require.Len(t, list, len(payloads))
		for i, payload := range payloads {
			if json.Valid([]byte(payload)) {
				require.JSONEq(t, payload, string(list[i].Payload))
				continue
			}
			var text string
			require.NoError(t, json.Unmarshal(list[i].Payload, &text), payload)
			require.Equal(t, payload, text)
		}
	})
}
