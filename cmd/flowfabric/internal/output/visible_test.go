package output

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// nasty contains characters that control terminals: C0, delete, C1 (CSI as one character), overrides and isolates of
// direction, tags, separators.
const nasty = "a\x1b[31m\r\n\t\x00\x7f\u009b2J\u202eb\u2066\u200b\ufeff\U000e0041\u2028z"

const shown = `a\x1b[31m\r\n\t\x00\x7f\u009b2J\u202eb\u2066\u200b\ufeff\U000e0041\u2028z`

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "für Zoë 🙂, C:\\dir": "für Zoë 🙂, C:\\dir", nasty: shown, "\xffok\xc3": `\xffok\xc3`, "\u061c": `\u061c`, "'\x1b'": `'\x1b'`,
	} {
		require.Equal(t, want, Visible(text))
	}
	require.Equal(t, "one\n"+`t\x1bwo`, VisibleLines("one\nt\x1bwo"))
	line, err := VisibleJSON(map[string]string{nasty: nasty})
	require.NoError(t, err)
	require.False(t, strings.ContainsFunc(line, isHidden))
	var back map[string]string
	require.NoError(t, json.Unmarshal([]byte(line), &back))
	require.Equal(t, map[string]string{nasty: nasty}, back, "JSON is exact")
}

// requireHarmless fails when a terminal would do anything else than show the text and its line breaks.
func requireHarmless(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text))
	require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && isHidden(r) }), "%q", text)
}
