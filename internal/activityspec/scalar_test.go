package activityspec

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Values without reflection have the form of encoding/json.
func TestScalarsAgreeWithJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "a", `"`, `\`, "\n", "\x7f", "é", "\u2028", "a\u2029b", "\ufffd", "\xff", "<&>", strings.Repeat("long ", 1000),
	} {
		checkScalar(t, text)
	}
	for _, n := range []int64{0, 1, -1, 999, math.MaxInt64, math.MinInt64, 1e17, 1e18} {
		checkScalar(t, n)
		checkScalar(t, int(n))
	}
	checkScalar(t, true)
	checkScalar(t, false)
	for _, text := range []string{
		"", "0", "-0", "-", "01", "1 ", " 1", "1.0", "1e3", "9223372036854775808", "999999999999999999", "-999999999999999999",
		"null", "true", "false", "tru", `""`, `"`, `"a"`, `"a" `, `"a\n"`, "\"\n\"", "\"\xff\"", `"a"b"`, `"é"`,
	} {
		checkDecoded[int](t, text)
		checkDecoded[int64](t, text)
		checkDecoded[bool](t, text)
		checkDecoded[string](t, text)
	}
}

func checkScalar[T comparable](t *testing.T, value T) {
	t.Helper()
	want, wantErr := EncodeJSON(value)
	got, ok := EncodeScalar(value)
	if !ok {
		return
	}
	require.NoError(t, wantErr, "%#v", value)
	assert.Equal(t, string(want), string(got))
	checkDecoded[T](t, string(got))
}

func checkDecoded[T comparable](t *testing.T, text string) {
	t.Helper()
	got, ok := DecodeScalar[T]([]byte(text))
	if !ok {
		return
	}
	var want T
	require.NoError(t, json.Unmarshal([]byte(text), &want), text)
	assert.Equal(t, want, got)
}

// Most values are scalars, which cost no more than their bytes.
func TestAllocationsOfScalars(t *testing.T) {
	number, text := []byte("1234"), []byte(`"a text that is not short"`)
	for name, x := range map[string]struct {
		most float64
		do   func() bool
	}{
		"encode a number": {1, func() bool { _, ok := EncodeScalar(1234); return ok }},
		"encode a text":   {1, func() bool { _, ok := EncodeScalar("a text that is not short"); return ok }},
		"decode a number": {0, func() bool { _, ok := DecodeScalar[int](number); return ok }},
		"decode a text":   {1, func() bool { _, ok := DecodeScalar[string](text); return ok }},
	} {
		done := true
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { done = x.do() && done }), x.most, name)
		assert.True(t, done, name)
	}
}

func FuzzDecodeScalar(f *testing.F) {
	f.Add("12")
	f.Add(`"a"`)
	f.Fuzz(func(t *testing.T, text string) {
		checkDecoded[int64](t, text)
		checkDecoded[string](t, text)
	})
}
