// Package recordtext bounds the texts that people and programs store in records: reasons, names of actors, categories
// of failures.
package recordtext

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// shown is how much of a bad text an error shows, in bytes.
const shown = 40

// Check validates a text of a user: it must be valid UTF-8 without control characters, and have at most limit bytes.
// The error names the field, the text, shortened, and the rule. An empty text is valid.
func Check(thing, text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("%s %s: it has %d bytes, at most %d are allowed", thing, quote(text), len(text), limit)
	}
	if fault := Fault(text); fault != nil {
		return fmt.Errorf("%s %s: %w", thing, quote(text), fault)
	}
	return nil
}

// Fault returns the reason why a text cannot be shown on a line: it is not UTF-8, or has a control character. It is nil
// for a good one.
func Fault(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("it is not valid UTF-8")
	}
	if at := strings.IndexFunc(text, unicode.IsControl); at >= 0 {
		r, _ := utf8.DecodeRuneInString(text[at:])
		return fmt.Errorf("it has the control character %U", r)
	}
	return nil
}

// PathFault returns the reason why a name cannot be a part of the path of a URL: browsers and proxies resolve "." and
// "..", also escaped, and servers take an escaped "/" alone for an empty part. It is nil for a good one.
func PathFault(name string) error {
	switch name {
	case "/", ".", "..":
		return fmt.Errorf("%q cannot be part of a URL", name)
	}
	return nil
}

// NameFault returns the reason why a name cannot be used in URLs, for objects whose names have no further rules, such
// as tokens: it is not UTF-8, has a control character, white space or a slash, or is "." or "..". It is nil for a good
// one.
func NameFault(name string) error {
	if err := Fault(name); err != nil {
		return err
	}
	if strings.ContainsFunc(name, unicode.IsSpace) {
		return errors.New("it has white space")
	}
	if strings.Contains(name, "/") {
		return errors.New("it has a slash")
	}
	return PathFault(name)
}

// CheckTime validates a time that is stored: the text of a time has a form for the years 1 to 9999 only. The error
// names the time and the rule. The zero time is valid.
func CheckTime(t time.Time) error {
	if t.Before(lastTime) && !t.Before(time.Time{}) {
		return nil
	}
	return fmt.Errorf("%s: must be of the years 1 to 9999", t.UTC().Format("2006-01-02T15:04:05Z"))
}

var lastTime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// Time is a stored time in Unix milliseconds. A time that other programs have stored beyond the years 1 to 9999, such
// as "never" as the largest number, becomes the last time that has a form as text, or the first: it means the same, and
// can be encoded for a page.
func Time(ms int64) time.Time {
	return time.UnixMilli(min(max(ms, firstMilli), endMilli)).UTC()
}

var (
	firstMilli = time.Time{}.UnixMilli() + 1 // the zero time is none
	endMilli   = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() - 1
)

func quote(text string) string {
	if len(text) <= shown {
		return strconv.Quote(text)
	}
	return strconv.Quote(cut(text, shown)) + "…"
}

// Line makes a text fit for the record that a function has chosen and that must not be refused: valid UTF-8 on one
// line, in at most limit bytes. Control characters are escaped as in Go, and "…" is the end of one that was too long.
func Line(text string, limit int) string {
	size := len(text)
	text = escape(text, unicode.IsControl, limit)
	if max(size, len(text)) <= limit {
		return text
	}
	return cut(text, limit-len("…")) + "…"
}

// Text is Line for a text of several lines: line feeds and tabs stay. One that is too long ends with its size, in a
// mark that does not count for the limit.
func Text(text string, limit int) string {
	size := len(text)
	text = escape(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }, limit)
	if max(size, len(text)) <= limit {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", cut(text, limit), size)
}

// escape makes a text valid UTF-8 without control characters. Of a long one, it gives little more than limit bytes.
func escape(text string, control func(rune) bool, limit int) string {
	if len(text) > limit {
		text = text[:min(len(text), limit+utf8.UTFMax)]
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if !strings.ContainsFunc(text, control) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if !control(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// cut gives the first bytes of a text, up to a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
