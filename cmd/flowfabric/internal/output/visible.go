package output

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// isHidden reports whether a character does something to a terminal instead of being shown: control characters (C0,
// delete, C1), format characters, such as the ones that reverse the direction of text, and separators of lines and
// paragraphs.
func isHidden(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// Visible returns a text on one line, with hidden characters and invalid UTF-8 escaped as in Go: \n, \x1b, \u202e. Text
// written by others must not act as a command to the terminal.
func Visible(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, isHidden) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case isHidden(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// VisibleLines is Visible for a text of several lines.
func VisibleLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Visible(lines[i])
	}
	return strings.Join(lines, "\n")
}

// VisibleJSON is the JSON of a value on one line, with hidden characters in their escaped form.
func VisibleJSON(value any) (string, error) {
	data, err := json.Marshal(value)
	return escapeJSON(string(data)), err
}

// escapeJSON escapes the hidden characters in the strings of JSON. Outside of strings there are line breaks alone.
func escapeJSON(text string) string {
	if !strings.ContainsFunc(text, isHidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch high, low := utf16.EncodeRune(r); {
		case !isHidden(r), r == '\n': // a line break of a string is escaped already
			b.WriteRune(r)
		case high != unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
