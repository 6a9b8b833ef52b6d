package recordtext

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", "für Zoë, 17:00", strings.Repeat("x", 64)} {
		require.NoError(t, Check("reason", good, 64))
	}
	for bad, want := range map[string]string{
		"a\nb":                            `reason "a\nb": it has the control character U+000A`,
		"a\u009bb":                        `reason "a\u009bb": it has the control character U+009B`,
		"a\xff":                           `reason "a\xff": it is not valid UTF-8`,
		strings.Repeat("x", 65):           `reason "` + strings.Repeat("x", 40) + `"…: it has 65 bytes, at most 64 are allowed`,
		strings.Repeat("x", 39) + "ë\x00": `reason "` + strings.Repeat("x", 39) + `"…: it has the control character U+0000`,
	} {
		require.EqualError(t, Check("reason", bad, 64), want)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a\n\tb", Text("a\n\tb", 10))
	require.Equal(t, `a\n\tb`, Line("a\n\tb", 10))
	require.Equal(t, `a\x1b[2J\x00`, Text("a\x1b[2J\x00", 20))
	require.Equal(t, "a\ufffdb", Text("a\xff\xfeb", 10))
	require.Equal(t, "aaaa… (5 bytes)", Text("aaaaa", 4))
	require.Equal(t, "aaaë… (8 bytes)", Text("aaaëbbb", 5))
	require.Equal(t, "aaa… (8 bytes)", Text("aaaëbbb", 4))
	require.Equal(t, "aa…", Line("aaaaaa", 5))
	require.Equal(t, "aaaaa", Line("aaaaa", 5))
	require.Equal(t, "\ufffd… (9 bytes)", Text(strings.Repeat("\xff", 9), 4))
}

// Recorded text has a bounded size, regardless of the text that a function returns.
func FuzzTexts(f *testing.F) {
	f.Add("a\x1b\xff\u009b\n", 7)
	f.Add(strings.Repeat("\x00", 100), 20)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 4 + min(max(0, limit), 1<<12)
		line, whole := Line(text, limit), Text(text, limit)
		require.LessOrEqual(t, len(line), limit)
		require.LessOrEqual(t, len(whole), limit+40)
		require.True(t, utf8.ValidString(line) && utf8.ValidString(whole))
		require.False(t, strings.ContainsFunc(line, unicode.IsControl))
		require.False(t, strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(whole), unicode.IsControl))
		if utf8.ValidString(text) && len(text) <= limit && !strings.ContainsFunc(text, unicode.IsControl) {
			require.Equal(t, text, line)
			require.Equal(t, text, whole)
		}
	})
}

func TestPathFault(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"/", ".", ".."} {
		if err := PathFault(bad); err == nil || !strings.Contains(err.Error(), strconv.Quote(bad)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{"a", "...", "//", "a/..", "%2F", ". ", "4711"} {
		if err := PathFault(good); err != nil {
			t.Error(err)
		}
	}
}

// Times that can be stored have a form as text, and so have those that other programs have stored.
func TestTimes(t *testing.T) {
	t.Parallel()
	for _, good := range []time.Time{{}, time.Unix(0, 0), time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC), time.Date(1, 1, 1, 1, 0, 0, 0, time.UTC)} {
		if err := CheckTime(good); err != nil {
			t.Error(err)
		}
		if _, err := good.MarshalJSON(); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []time.Time{time.UnixMilli(math.MaxInt64), time.UnixMilli(math.MinInt64), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if err := CheckTime(bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	for ms, want := range map[int64]string{
		0: "1970-01-01T00:00:00Z", math.MaxInt64: "9999-12-31T23:59:59.999Z", math.MinInt64: "0001-01-01T00:00:00.001Z",
		253402300799999: "9999-12-31T23:59:59.999Z", 253402300800000: "9999-12-31T23:59:59.999Z",
	} {
		if text, err := Time(ms).MarshalText(); err != nil || string(text) != want {
			t.Errorf("%d: %s, %v", ms, text, err)
		}
	}
}

func TestNameFault(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ci": "", "ann@example.com": "", "Zoë": "", "...": "", "a.b": "", ".": "URL", "..": "URL", "/": "slash",
		"a/b": "slash", "a b": "white space", "a\u00a0b": "white space", "a\nb": "control", "\x7f": "control",
		"\xff": "UTF-8",
	} {
		err := NameFault(name)
		if want == "" {
			require.NoError(t, err, "%q", name)
			continue
		}
		require.ErrorContains(t, err, want, "%q", name)
	}
}
