package numfmt

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "-1": -1, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64} {
		got, ok := ParseInt(text)
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "+1", "01", "-0", "-", " 1", "1 ", "1.0", "9223372036854775808"} {
		_, ok := ParseInt(text)
		require.False(t, ok, text)
	}
}

func TestStrtod(t *testing.T) {
	for text, want := range map[string]struct {
		v float64
		n int
	}{
		" 1.5x": {1.5, 4}, "0x10": {16, 4}, "0x": {0, 1}, "1e": {1, 1}, "-inf": {math.Inf(-1), 4}, "infinite": {math.Inf(1), 3}, "x": {0, 0}, "1e999": {math.Inf(1), 5},
	} {
		v, n := Strtod(text)
		require.Equal(t, want.v, v, text)
		require.Equal(t, want.n, n, text)
	}
}

func TestFormat(t *testing.T) {
	for v, want := range map[float64][2]string{ // as a command gets it, and as Lua prints it
		1: {"1", "1"}, -0.5: {"-0.5", "-0.5"}, 1e15: {"1000000000000000", "1e+15"}, 0.1: {"0.1", "0.1"}, 1e-7: {"1e-7", "1e-07"},
		1. / 3: {"0.3333333333333333", "0.33333333333333"}, 1e300: {"1e+300", "1e+300"},
	} {
		require.Equal(t, want, [2]string{FormatNumber(v), FormatG14(v)})
	}
	sum, err := AddDecimals("0.1", "0.2")
	require.NoError(t, err)
	require.Equal(t, "0.3", sum)
	_, err = AddDecimals("inf", "1")
	require.Error(t, err)
}
