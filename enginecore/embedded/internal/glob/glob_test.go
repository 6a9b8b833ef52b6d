package glob

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*b", "aab", true}, {"a**b", "ab", true},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"[a-c]x", "bx", true}, {"[c-a]x", "bx", true}, {"[^a-c]x", "bx", false},
		{"[ab", "a", true}, {`\*`, "*", true}, {`\*`, "a", false}, {`[\]]`, "]", true}, {"", "", true}, {"", "a", false},
	} {
		require.Equal(t, c.want, Match(c.pattern, c.text), "%q %q", c.pattern, c.text)
	}
}

// FuzzMatch compares patterns of * and ? with regular expressions, and matches any others.
func FuzzMatch(f *testing.F) {
	f.Add("a*b?c", "axxbyc")
	f.Add("*a*a*a*a*a*a*a*a*a*a*a*a*a*b", strings.Repeat("a", 60))
	f.Add(`[^a-\]]\*[z-a]`, "b*m")
	f.Add("[", "[")
	f.Add(`\`, `\`)
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 200 || len(text) > 1000 {
			return
		}
		got := Match(pattern, text)
		if strings.ContainsAny(pattern, `[\`) {
			return
		}
		b := []byte("(?s)^")
		for _, c := range []byte(pattern) {
			switch c {
			case '*':
				b = append(b, ".*"...)
			case '?':
				b = append(b, '.')
			default:
				b = append(b, regexp.QuoteMeta(string(rune(c)))...)
			}
		}
		want := regexp.MustCompile(string(b) + "$").MatchString(latin1(text))
		require.Equal(t, want, got, "%q %q", pattern, text)
	})
}

// latin1 makes a character of each byte: the server compares bytes, regular expressions characters.
func latin1(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		b.WriteRune(rune(c))
	}
	return b.String()
}
