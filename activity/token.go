package activity

import (
	"fmt"
	"log/slog"
)

const redacted = "[token]"

// Token is the right to signal one waitpoint: whoever has its text may answer. However it is printed, logged or encoded, it
// does not show itself; Reveal gives the text for the one who is to answer.
//
// It has no JSON form to be read from, so it cannot become a durable step's result or an activity's by mistake: open the
// waitpoint in the step that hands the token over.
type Token struct {
	// A pointer, because fmt prints unexported fields of other structs without asking their methods.
	text *string
}

// NewToken makes a Token of its text, as Reveal gave it. Two tokens are the same when their texts are.
func NewToken(text string) Token {
	if text == "" {
		return Token{}
	}
	return Token{&text}
}

// Reveal returns the text. It consists of letters, digits, '-' and '_', so it can be part of a URL.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// IsZero tells that there is no token.
func (t Token) IsZero() bool { return t.text == nil }

// String returns a placeholder.
func (t Token) String() string {
	if t.text == nil {
		return ""
	}
	return redacted
}

// GoString returns a placeholder.
func (t Token) GoString() string { return fmt.Sprintf("activity.Token(%q)", t.String()) }

// Format writes a placeholder for every verb.
func (t Token) Format(s fmt.State, verb rune) {
	if verb == 'v' && s.Flag('#') {
		fmt.Fprint(s, t.GoString())
		return
	}
	fmt.Fprint(s, t.String())
}

// MarshalText returns a placeholder.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue returns a placeholder.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }
