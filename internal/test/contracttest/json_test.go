package contracttest

import (
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// TestJSON sends JSON texts at the limits of policies, tags and attempt policies.
func TestJSON(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	each(t, func(t *testing.T, b *bench) {
		for policy, reply := range map[string]string{
			`5`: "1|OK", `"x"`: "1|OK", `null`: "1|OK", `true`: "1|OK", ` {} `: "1|OK", `[]`: "1|OK", `{"x":NaN}`: "1|OK", `{"x":Infinity}`: "1|OK",
			`{"x":-Infinity}`: "1|OK", "{\"a\":\"\n\"}": "1|OK", `{"routing_requirements":{}}`: "1|OK", `{"routing_requirements":[]}`: "1|OK",
			`{"routing_requirements":{"required_capabilities":{"a":1}}}`: "1|OK", nested(1000): "1|OK",
			`{} x`: "0|invalid_policy_json|malformed", `  `: "0|invalid_policy_json|malformed", `{"a":}`: "0|invalid_policy_json|malformed",
			nested(1001): "0|invalid_policy_json|malformed", `{'a':1}`: "0|invalid_policy_json|malformed",
			`{"routing_requirements":null}`:                             "0|invalid_policy_json|routing_requirements:not_object",
			`{"routing_requirements":"x"}`:                              "0|invalid_policy_json|routing_requirements:not_object",
			`{"routing_requirements":{"required_capabilities":null}}`:   "0|invalid_capabilities|required:not_array",
			`{"routing_requirements":{"required_capabilities":"a"}}`:    "0|invalid_capabilities|required:not_array",
			`{"routing_requirements":{"required_capabilities":[null]}}`: "0|invalid_capabilities|required:non_string_token",
			`{"routing_requirements":{"required_capabilities":[""]}}`:   "0|invalid_capabilities|required:empty_token",
			`{"routing_requirements":{"required_capabilities":["é"]}}`:  "1|OK",
		} {
			call := b.newCreate()
			got := b.say(wireOf(b, call).with(7, policy))
			if reply == "1|OK" {
				reply += "|" + string(call.ExecutionID) + "|waiting"
			}
			want(t, "policy "+policy[:min(len(policy), 70)], got, reply)
		}
		t.Run("tags", func(t *testing.T) {
			b := b.in(t)
			for json, value := range map[string]string{
				`null`: "userdata: (nil)", `true`: "true", `100000000000000`: "1e+14", `1.5`: "1.5", `-0`: "-0", `1e400`: "inf", `"a\/b\u00e9"`: "a/bé",
				`12345678901234567`: "1.2345678901235e+16", `0.1`: "0.1", `"\ud83d\ude00"`: "😀", `"a\u0000b"`: "a\x00b",
			} {
				call := b.newCreate()
				must := wireOf(b, call).with(11, `{"k":`+json+`}`)
				want(t, "reply for "+json, b.say(must), "1|OK|"+string(call.ExecutionID)+"|waiting")
				want(t, "tag "+json, b.field(b.keys.ExecTags(call.ExecutionID), "k"), value)
			}
			for _, json := range []string{`{`, `5`, `[]`, `{}`, `null`, `"x"`} {
				call := b.newCreate()
				b.say(wireOf(b, call).with(11, json))
				want(t, "tags for "+json, b.exists(b.keys.ExecTags(call.ExecutionID)), false)
			}
			call := b.newCreate()
			b.say(wireOf(b, call).with(11, `["a","b"]`))
			want(t, "second of a list", b.field(b.keys.ExecTags(call.ExecutionID), "2"), "b")
		})
		t.Run("policy of an attempt", func(t *testing.T) {
			b := b.in(t)
			h := b.claim(b.create(), func(c *enginerpc.ClaimExecutionCall) {
				c.AttemptPolicyJSON = []byte(`{"a":[],"b":"x/y","c":["x/y",1.0],"d":false,"e":{"f":null}}`)
			})
			for name, value := range map[string]string{"a": "{}", "b": "x/y", "c": `["x\/y",1]`, "d": "false", "e": `{"f":null}`} {
				want(t, name, b.field(b.keys.AttemptPolicy(h.id, h.index), name), value)
			}
		})
	})
}
