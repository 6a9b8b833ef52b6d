package output

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzVisible prints any text: no part of it acts on the terminal, and text without control characters is printed
// unchanged.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"plain", "a\x1b[2J", "\u009b31m", "\u202eabc", "\xff\xfe", "a\nb", `\x1b`, "\u2028", "🏳️‍🌈", "\"\x7f\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Visible(text)
		require.True(t, utf8.ValidString(got))
		require.False(t, strings.ContainsFunc(got, isHidden), "%q", got)
		require.Equal(t, got, Visible(got), "printed text is printed unchanged")
		require.False(t, strings.ContainsFunc(strings.ReplaceAll(VisibleLines(text), "\n", ""), isHidden))
		shown, err := VisibleJSON(map[string]string{"text": text})
		require.NoError(t, err)
		require.False(t, strings.ContainsFunc(shown, isHidden), "%q", shown)
		var back map[string]string
		require.NoError(t, json.Unmarshal([]byte(shown), &back), "%q", shown)
		if utf8.ValidString(text) {
			require.Equal(t, text, back["text"])
		}
	})
}
