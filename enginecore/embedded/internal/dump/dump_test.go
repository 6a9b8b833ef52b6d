package dump

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// TestStream writes a stream, reads its records and rebuilds it with the same nodes.
func TestStream(t *testing.T) {
	var s keyspace.Store
	stream := &datatype.Stream{}
	for i := range uint64(250) {
		stream.Add(datatype.StreamID{Ms: i + 1}, []string{"f", "v"})
	}
	stream.Delete(datatype.StreamID{Ms: 7})
	s.Put("s", stream)
	var b bytes.Buffer
	w := record.NewWriter(bufio.NewWriter(&b), 1)
	Keys(w, &s)
	require.NoError(t, w.Flush())

	n, seq, reason := record.Open(b.Bytes())
	require.Empty(t, reason)
	require.EqualValues(t, 1, seq)
	require.Equal(t, b.Len(), n)
	var again keyspace.Store
	ok, err := record.ReadCommands(b.Bytes()[record.HeaderSize:], func(words []string) error {
		require.True(t, Only(words[0]))
		return Restore(&again, words)
	})
	require.True(t, ok)
	require.NoError(t, err)
	got, ok := keyspace.Get[datatype.Stream](&again, "s")
	require.True(t, ok)
	require.Equal(t, stream, got)
	require.Error(t, Restore(&again, []string{nodeVerb, "none"}))
}
