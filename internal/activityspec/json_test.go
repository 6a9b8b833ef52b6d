package activityspec

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: "", `[{"a":1},{"a":1}]`: "", `{"a":{"a":{"b":1}},"b":["a","a"]}`: "", `1e400`: "",
		`123456789012345678901234567890`: "", `"\ud83d\ude00"`: "", `"\\ud800"`: "", `"\ufffd"`: "", `"a\"b"`: "",
		" { \"a\" : 1 , \"b\" : \"a\" } ": "", `"` + "\u00e9" + `"`: "",
		`{"a":1,"a":1}`: `"a" twice`, `{"a":1,"\u0061":2}`: `"a" twice`, `[{"x":{"b":1,"c":[],"b":2}}]`: `"b" twice`,
		`{"":1,"":2}`: "twice", "\"\xff\"": "UTF-8", "{\"\xc3\":1}": "UTF-8", `"\ud800"`: "surrogate", `"\ud800x"`: "surrogate",
		`"\ud800\u0041"`: "surrogate", `"\udc00"`: "surrogate", `{"\ud800":1}`: "surrogate",
		``: "not JSON", `NaN`: "not JSON", `Infinity`: "not JSON", `[-Infinity]`: "not JSON", `{"a":1}x`: "not JSON", `01`: "not JSON",
	} {
		err := CheckJSON([]byte(text))
		if want == "" {
			require.NoError(t, err, "%q", text)
			continue
		}
		require.ErrorContains(t, err, want, "%q", text)
	}
}

func TestEncodeJSON(t *testing.T) {
	t.Parallel()
	type inner struct{ Text string }
	type outer struct {
		inner
		Left   string `json:"-"`
		Any    any
		Map    map[string][]inner
		Raw    json.RawMessage
		hidden string
	}
	bad := "a\xffb"
	for _, value := range []any{
		bad, []string{bad}, map[string]int{bad: 1}, inner{bad}, &inner{bad}, outer{inner: inner{bad}}, outer{Any: bad},
		outer{Map: map[string][]inner{"a": {{bad}}}}, json.RawMessage(`"` + bad + `"`), outer{Raw: json.RawMessage(`"` + bad + `"`)},
	} {
		_, err := EncodeJSON(value)
		require.ErrorContains(t, err, "UTF-8", "%#v", value)
	}
	for _, value := range []any{math.NaN(), math.Inf(1), json.RawMessage("NaN"), make(chan int)} {
		_, err := EncodeJSON(value)
		require.Error(t, err)
	}
	for want, value := range map[string]any{
		`"<&>"`: "<&>", `"` + "\ufffd" + `"`: "\ufffd", `"\ufffd"`: json.RawMessage(`"\ufffd"`), `1e400`: json.RawMessage(`1e400`),
		`{"a":1,"a":2}`: json.RawMessage(`{"a":1,"a":2}`), `"\\ufffd"`: `\ufffd`, `"/w=="`: []byte{0xff},
	} {
		got, err := EncodeJSON(value)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	got, err := EncodeJSON(outer{Left: bad, hidden: bad})
	require.NoError(t, err)
	require.NotContains(t, string(got), "fffd")
}

// Brackets within texts do not nest, and a payload need not be JSON.
func TestCheckDepth(t *testing.T) {
	t.Parallel()
	lists := func(depth int, inner string) string {
		return strings.Repeat("[", depth) + inner + strings.Repeat("]", depth)
	}
	for _, payload := range []string{
		lists(1000, `{`), lists(1000, `{"a":1}`), lists(1000, `"`+strings.Repeat("[", 2000)), strings.Repeat("[]", 2000),
	} {
		err := CheckDepth([]byte(payload))
		if strings.Contains(payload, "{") {
			require.EqualError(t, err, "payload is nested 1001 deep, at most 1000 is allowed")
		} else {
			require.NoError(t, err)
		}
	}
	require.NoError(t, CheckDepth([]byte(lists(1000, `"\\\"`+strings.Repeat("{", 10)+`"`))))
	require.NoError(t, CheckDepth([]byte(strings.Repeat("x", 1000)+`"\`)))
}

func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":"\ud83d\ude00"}]}`, `{"a":1,"a":2}`, `"\u`, strings.Repeat("[", 50)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if CheckJSON(text) != nil {
			return
		}
		// Valid JSON remains valid after it is decoded and encoded.
		var value any
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		require.NoError(t, d.Decode(&value))
		again, err := EncodeJSON(value)
		require.NoError(t, err)
		require.NoError(t, CheckJSON(again))
	})
}
