package record

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRecord flips every byte of a record: none of them is believed.
func TestRecord(t *testing.T) {
	b := AppendCommand(AppendCommand(Start(nil), []string{"SET", "k", ""}), []string{"DEL", "k"})
	Seal(b, 42)
	n, seq, reason := Open(append(slices.Clone(b), "more"...))
	require.Equal(t, []any{len(b), uint64(42), ""}, []any{n, seq, reason})
	var got [][]string
	ok, err := ReadCommands(b[HeaderSize:], func(words []string) error { got = append(got, words); return nil })
	require.True(t, ok)
	require.NoError(t, err)
	require.Equal(t, [][]string{{"SET", "k", ""}, {"DEL", "k"}}, got)
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= 1
		_, _, reason := Open(bad)
		require.NotEmpty(t, reason, i)
	}
	intact := slices.Collect(IntactAfter(slices.Concat([]byte("torn"), b, b[:30], b)))
	require.Equal(t, [][]byte{b[HeaderSize:], b[HeaderSize:]}, intact)
	require.Empty(t, slices.Collect(IntactAfter(b)))
	require.Equal(t, len(b), ClaimedSize(b[:HeaderSize]))
}

func TestFileHeader(t *testing.T) {
	b := FileHeader(3, 9)
	require.Len(t, b, FileHeaderSize)
	seq, reason := ReadFileHeader(b, 3)
	require.Equal(t, []any{uint64(9), ""}, []any{seq, reason})
	_, reason = ReadFileHeader(b, 4)
	require.Equal(t, "file header names another generation", reason)
}
