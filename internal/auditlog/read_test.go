package auditlog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzTimeOf reads any text as the position of an entry.
func FuzzTimeOf(f *testing.F) {
	for _, seed := range []string{"", "1795188498438-0", "1-1/-1", "-1-0", "18446744073709551616-0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := timeOf(text); ok {
			require.False(t, at.IsZero())
		}
	})
}
