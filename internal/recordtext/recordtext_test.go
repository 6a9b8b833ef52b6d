package recordtext

import (
	"strings"
	"testing"
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

// Whatever a function says, what is recorded is text of a bounded size.
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
