package runrecord

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	full := Record{
		RunID: "order-7", InputHash: "00112233445566778899aabbccddeeff", TraceContext: strings.Repeat("t", 300), FairKey: "k", Creator: "c",
		Memo: []byte(strings.Repeat("m", 1<<16)), Parent: "{fp:7}:x", FailFast: true,
	}
	for _, r := range []Record{{}, {RunID: "a"}, {RunID: strings.Repeat("r", 32), InputHash: "i"}, full} {
		got, err := Decode(string(r.Encode()))
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	require.Equal(t, "\x01\x92\xa7order-7\xb0\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff",
		string(Record{RunID: full.RunID, InputHash: full.InputHash}.Encode()))
}

func TestClass(t *testing.T) {
	t.Parallel()
	c := Class{Graph: "g", GraphHash: strings.Repeat("h", 32), FlowName: "orders", Namespace: "n", Retention: "1,2,3,4", Priority: "5"}
	got, err := DecodeClass(string(c.Encode()))
	require.NoError(t, err)
	require.Equal(t, c, got)
	c.GraphHash += "more"
	require.Equal(t, string(got.Encode()), string(c.Encode()))
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                     "is cut off",
		"\x02\x90":             "has version 2, this program reads version 1",
		"\x01":                 "is cut off",
		"\x01\xc0":             "is no array",
		"\x01\x91":             "is cut off",
		"\x01\x91\xa2x":        "is cut off",
		"\x01\x91\xd9":         "is cut off",
		"\x01\x91\xdb\x00\x00": "is cut off",
		"\x01\x91\xc0":         "is no text",
		"\x01\x90x":            "1 bytes too many",
	} {
		_, err := Decode(text)
		require.ErrorContains(t, err, want, "%q", text)
	}
}

// FuzzDecode reads any text as a record, and encodes the result.
func FuzzDecode(f *testing.F) {
	f.Add(string(Record{RunID: "r", InputHash: "00112233445566778899aabbccddeeff", Memo: []byte("{}"), FailFast: true}.Encode()))
	f.Add("\x01\x93\xa1a\xd9\x01b\xdb\x00\x00\x00\x01c")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Decode(text)
		if err != nil {
			return
		}
		again, err := Decode(string(r.Encode()))
		if err != nil || r.RunID != again.RunID || !strings.EqualFold(r.InputHash, again.InputHash) || string(r.Memo) != string(again.Memo) || r.FailFast != again.FailFast {
			t.Fatalf("%q became %+v, %v, not %+v", text, again, err, r)
		}
	})
}
