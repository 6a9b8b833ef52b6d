package record

import (
	"bufio"
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRecord opens any bytes as a record. An accepted record has the form that Seal gives it, so no two texts are the
// same record, and its commands are the written ones.
func FuzzRecord(f *testing.F) {
	whole := AppendCommand(AppendCommand(Start(nil), []string{"SET", "k", ""}), []string{"DEL", "k"})
	Seal(whole, 42)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append(slices.Clone(whole), whole...))
	f.Add(append([]byte("torn"), whole...))
	huge := slices.Clone(whole)
	copy(huge[4:], "\xff\xff\xff\xff") // a length of 4 GiB
	f.Add(huge)
	f.Fuzz(func(t *testing.T, data []byte) {
		for payload := range IntactAfter(data) {
			require.Less(t, len(payload), len(data))
		}
		require.GreaterOrEqual(t, ClaimedSize(data), 0)
		n, seq, reason := Open(data)
		if reason != "" {
			require.Zero(t, n)
			return
		}
		again := append(Start(nil), data[HeaderSize:n]...)
		Seal(again, seq)
		require.Equal(t, data[:n], again)
		require.Len(t, slices.Collect(IntactAfter(append([]byte("torn"), data[:n]...))), 1)
	})
}

// FuzzReadCommands reads any payload. Commands that are read and written again are read as the same.
func FuzzReadCommands(f *testing.F) {
	f.Add(AppendCommand(AppendCommand(nil, []string{"HSET", "k", "f", "v"}), []string{"DEL", "k"}))
	f.Add([]byte{0})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01})
	f.Add([]byte{3, 1, 'a', 1, 'b'})
	f.Fuzz(func(t *testing.T, payload []byte) {
		read := func(p []byte) (list [][]string, ok bool) {
			ok, err := ReadCommands(p, func(words []string) error { list = append(list, words); return nil })
			require.NoError(t, err)
			return list, ok
		}
		list, ok := read(payload)
		if !ok {
			return
		}
		var again []byte
		for _, words := range list {
			require.NotEmpty(t, words)
			again = AppendCommand(again, words)
		}
		require.LessOrEqual(t, len(again), len(payload), "the written form is the shortest")
		same, ok := read(again)
		require.True(t, ok)
		require.Equal(t, list, same)
		// Through a Writer, the commands are the payload of one record.
		var b bytes.Buffer
		w := NewWriter(bufio.NewWriter(&b), 7)
		for _, words := range list {
			w.Add(words...)
		}
		require.NoError(t, w.Flush())
		if len(list) == 0 {
			require.Zero(t, b.Len())
			return
		}
		_, seq, reason := Open(b.Bytes())
		require.Empty(t, reason)
		require.EqualValues(t, 7, seq)
	})
}

// FuzzReadFileHeader reads any bytes as the header of a file. An accepted header has the bytes that FileHeader writes.
func FuzzReadFileHeader(f *testing.F) {
	f.Add(FileHeader(3, 9), uint64(3))
	f.Add(FileHeader(3, 9), uint64(4))
	f.Add(FileHeader(3, 9)[:FileHeaderSize-1], uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, gen uint64) {
		seq, reason := ReadFileHeader(data, gen)
		if reason == "" {
			require.Equal(t, FileHeader(gen, seq), data[:FileHeaderSize])
		}
		seq, reason = ReadFileHeader(FileHeader(gen, 7), gen)
		require.Equal(t, []any{uint64(7), ""}, []any{seq, reason})
	})
}

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
