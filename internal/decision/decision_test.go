package decision

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// The fields of an answer must agree with the signal; a boolean that is missing reads as false.
func TestCheck(t *testing.T) {
	t.Parallel()
	const approve = `{"type":["null","object"],"properties":{"approve":{"type":["null","boolean"]},"urgent":{"type":"boolean"}}}`
	const choice = `{"type":"object","properties":{"choice":{"type":["null","string"]},"comment":{"type":"string"}}}`
	const words = `{"$ref":"#/$defs/d","$defs":{"d":{"properties":{"decision":{"enum":["approved","rejected",null]}}}}}`
	const nested = `{"properties":{"decision":{"anyOf":[{"type":"null"},{"enum":["ship","hold"]}]}}}`
	for _, c := range []struct{ signal, schema, payload, says string }{
		{"approve", approve, `{"approve":true}`, ""},
		{"approve", approve, `{"approve":true,"urgent":false}`, ""},
		{"approve", approve, `{"approve":false}`, `/approve: approve contradicts the signal "approve": "approve" is false, and must be true`},
		{"approve", approve, `{}`, `"approve" is missing, and must be true`},
		{"approve", approve, `null`, `"approve" is missing, and must be true`},
		{"yes", approve, `{"approve":null}`, `"approve" is null, and must be true`},
		{"reject", approve, `{"approve":true}`, `approve contradicts the signal "reject": "approve" is true, and must be false`},
		{"reject", approve, `{"approve":false}`, ""},
		{"reject", approve, `{}`, ""},
		{"urgent", approve, `{"urgent":false}`, `/urgent: urgent contradicts`},
		{"answer", approve, `{"approve":false}`, ""},
		{"approve", choice, `{"choice":"approve"}`, ""},
		{"approve", choice, `{"comment":"reject"}`, ""},
		{"approve", choice, `{"choice":"with care"}`, ""},
		{"approve", choice, `{"choice":"reject"}`, `"choice" is "reject", and must be "approve"`},
		{"reject", choice, `{"choice":"Approved"}`, `"choice" is "Approved", and must be "reject"`},
		{"answer", choice, `{"choice":"reject"}`, ""},
		{"approve", words, `{"decision":"rejected"}`, `"decision" is "rejected", and must be "approved"`},
		{"approve", words, `{"decision":"approved"}`, ""},
		{"ship", nested, `{"decision":"hold"}`, `"decision" is "hold", and must be "ship"`},
		{"other", nested, `{"decision":"hold"}`, ""},
		{"approve", approve, `[1]`, ""},
		{"approve", "", `{"approve":false}`, ""},
	} {
		err := Check("payload", c.signal, []byte(c.schema), []byte(c.payload))
		if c.says == "" {
			require.Nil(t, err, "%+v", c)
			continue
		}
		require.NotNil(t, err, "%+v", c)
		require.ErrorContains(t, err, c.says)
	}
}

// The comment of a rejection is cut between two characters.
func TestComment(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"choice":"reject","comment":"not on a \"Friday\""}`: `not on a "Friday"`,
		`{"comment":""}`: "", `{"comment":5}`: "", `["comment"]`: "", `{"comment":`: "", ``: "",
		`{"comment":"` + strings.Repeat("x", 1024) + `"}`: strings.Repeat("x", 1024),
		`{"comment":"x` + strings.Repeat("ö", 600) + `"}`: "x" + strings.Repeat("ö", 511) + "…",
	} {
		require.Equal(t, want, Comment("reject", []byte(payload)), payload)
		require.Empty(t, Comment("approve", []byte(payload)))
	}
}

// Every choice sets the fields that say the same, so that its own answer passes the check.
func TestChoices(t *testing.T) {
	t.Parallel()
	const approve = `{"properties":{"approve":{"type":"boolean"},"choice":{"type":"string"},"note":{"type":"string"}}}`
	sets := func(approve bool, choice string) map[string]json.RawMessage {
		set := map[string]json.RawMessage{"approve": fmt.Append(nil, approve)}
		if choice != "" {
			set["choice"] = json.RawMessage(`"` + choice + `"`)
		}
		return set
	}
	for _, c := range []struct {
		signals []string
		schema  string
		want    []fabrictype.SignalChoice
	}{
		{nil, `{}`, nil},
		{[]string{"paid"}, "", []fabrictype.SignalChoice{{Signal: "paid"}}},
		{[]string{"approve", "reject"}, "", []fabrictype.SignalChoice{{Signal: "approve", Meaning: yes}, {Signal: "reject", Meaning: no}}},
		{[]string{"approve", "reject"}, approve, []fabrictype.SignalChoice{
			{Signal: "approve", Meaning: yes, Sets: sets(true, "approve")}, {Signal: "reject", Meaning: no, Sets: sets(false, "reject")},
		}},
		{nil, approve, []fabrictype.SignalChoice{
			{Signal: "approve", Meaning: yes, Sets: sets(true, "approve")}, {Signal: "reject", Meaning: no, Sets: sets(false, "reject")},
		}},
		{[]string{"answer"}, approve, []fabrictype.SignalChoice{
			{Signal: "answer", Meaning: yes, Sets: sets(true, "")}, {Signal: "answer", Meaning: no, Sets: sets(false, "")},
		}},
	} {
		got := Choices(c.signals, json.RawMessage(c.schema))
		require.Equal(t, c.want, got)
		for _, choice := range got {
			payload, err := json.Marshal(choice.Sets)
			require.NoError(t, err)
			require.Nil(t, Check("payload", choice.Signal, []byte(c.schema), payload))
		}
	}
}
