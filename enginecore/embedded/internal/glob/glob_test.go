package glob

import (
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
