package partitionmerge_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/partitionmerge"
)

// FuzzParseCursor parses any text as a cursor, and checks that a parsed position survives formatting and parsing
// unchanged.
func FuzzParseCursor(f *testing.F) {
	id := string(keyspace.FlowIDFor("default", "order", "1"))
	f.Add("c:1795188498438:" + id)
	f.Add("f+:0:" + id)
	f.Add("c:-1:" + id)
	f.Add("c:99999999999999999999:" + id)
	f.Add("::")
	f.Add("c:1:" + id + "\n")
	valid := func(id string) error {
		_, err := keyspace.ParseFlowID(id)
		return err
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, order, ok := partitionmerge.ParseCursor(text, valid)
		if !ok {
			require.Equal(t, partitionmerge.Position{}, p)
			return
		}
		require.NotEqual(t, partitionmerge.Start, p, "a cursor that leads back to the beginning")
		again, same, ok := partitionmerge.ParseCursor(p.Cursor(order), valid)
		require.True(t, ok)
		require.Equal(t, p, again)
		require.Equal(t, order, same)
		_, _, ok = partitionmerge.ParseCursor(text, func(string) error { return errors.New("of something else") })
		require.False(t, ok)
	})
}
