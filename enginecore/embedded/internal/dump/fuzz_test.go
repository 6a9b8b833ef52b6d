package dump

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// FuzzRestore restores streams from any words. A restored stream is dumped and restored as the same stream.
func FuzzRestore(f *testing.F) {
	f.Add("5-1", "0-0", "7", "1-0\x001\x0050\x001\x00f\x002-0\x002\x00f\x00v")
	f.Add("18446744073709551615-18446744073709551615", "0-0", "0", "0-0\x000\x000\x000\x001-1\x000")
	f.Add("", "-", "-1", "\x00\x00\x00")
	f.Add("1-1", "0-0", "1", "1-0\x00-1\x00-1\x00-1")
	f.Add("1-1", "0-0", "1", "1-0\x001\x001\x000\x001-1\x009223372036854775807")
	f.Fuzz(func(t *testing.T, last, deleted, added, node string) {
		var s keyspace.Store
		if Restore(&s, []string{streamVerb, "s", last, deleted, added}) != nil {
			return
		}
		_ = Restore(&s, append([]string{nodeVerb, "s"}, strings.Split(node, "\x00")...))
		var b bytes.Buffer
		w := record.NewWriter(bufio.NewWriter(&b), 1)
		Keys(w, &s)
		require.NoError(t, w.Flush())
		var again keyspace.Store
		ok, err := record.ReadCommands(b.Bytes()[record.HeaderSize:], func(words []string) error { return Restore(&again, words) })
		require.True(t, ok)
		require.NoError(t, err)
		want, _ := s.Keys.Get("s")
		got, _ := again.Keys.Get("s")
		require.Equal(t, want.Val, got.Val)
	})
}
