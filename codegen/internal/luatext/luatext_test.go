package luatext

import "testing"

func TestWithoutCommentsAndStrings(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ in, comments, both string }{
		{"a -- b\nc", "a     \nc", "a     \nc"},
		{"a '--' b", "a '--' b", "a '  ' b"},
		{`'\'' -- q`, `'\''     `, `'  '     `},
		{"[[K.x]] b", "[[K.x]] b", "        b"},
	} {
		if got := WithoutComments(x.in); got != x.comments {
			t.Errorf("%q: %q, want %q", x.in, got, x.comments)
		}
		if got := WithoutStrings(WithoutComments(x.in)); got != x.both {
			t.Errorf("%q: %q, want %q", x.in, got, x.both)
		}
	}
}
