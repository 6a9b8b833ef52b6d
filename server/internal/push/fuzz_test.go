package push

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzAnswer parses any bytes as the answer of a worker to a pushed task: it contains exactly one action, or is
// refused.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{"complete":{"result":{"a":1}}}`, `{"fail":{"reason":"x"}}`, `{"suspend":{}}`, `{"complete":{},"fail":{}}`, `{}`, `null`, ``, `{"complete":null}`, "{\"complete\":{\"result\":\"\xff\"}}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := read(text)
		if err != nil {
			require.ErrorIs(t, err, errBadAnswer)
			require.Nil(t, a.Complete)
			return
		}
		require.False(t, a.later)
		require.True(t, (a.Complete != nil) != (a.Fail != nil) != (a.Suspend != nil))
	})
}
