package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// FuzzParseCursor reads any text as a cursor. An accepted cursor names an existing partition, and its text is parsed as
// the same cursor.
func FuzzParseCursor(f *testing.F) {
	partitions := make([]keyspace.Partition, 16)
	for i := range partitions {
		partitions[i] = keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(2 * i)}
	}
	for _, seed := range []string{"", "4.17.abcdef012345", "5.1.x", "30.0.", "65536.0.x", "4.18446744073709551616.x", "4", "4.-1.x", "4.1.a.b\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, from, err := parseCursor(text, partitions)
		if err != nil {
			require.ErrorIs(t, err, runtime.ErrCursor)
			return
		}
		again, same, err := parseCursor(from.text(partitions[at]), partitions)
		require.NoError(t, err)
		require.Equal(t, at, again)
		require.Equal(t, from, same)
	})
}
