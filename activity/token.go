package activity

import (
	"fmt"
	"log/slog"
)

const redacted = "[token]"

// Token authorises signals to one waitpoint: anyone with its text can answer. It is redacted wherever it is printed,
// logged or encoded; Reveal returns the text for the person or system that answers.
//
// It cannot be decoded from JSON, so it cannot become the result of a step or an activity by mistake: open the
// waitpoint in the step that sends the token.
type Token struct {
	// A pointer, because fmt prints unexported fields of other structs without calling their methods.
	text *string
}

// NewToken converts a text returned by Reveal to a Token. Tokens are equal if their texts are.
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

// IsZero reports whether the token is the zero value.
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
