package aof

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory in which Open has stored no data yet is not an engine. A directory with any file that shows stored data
// is one, whatever the state of the other files.
func TestExists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files  []string
		exists bool
	}{
		{nil, false},
		{[]string{"LOCK"}, false},
		{[]string{"LOCK", "log-000000000001.tmp", "snapshot-000000000002.tmp", "MANIFEST.tmp", "room.tmp"}, false},
		{[]string{"README", "logbook"}, false},
		{[]string{"LOCK", "MANIFEST"}, true}, // its log was removed
		{[]string{"log-000000000001"}, true}, // of a version without a manifest, or emptied
		{[]string{"snapshot-000000000002"}, true},
	} {
		dir := t.TempDir()
		for _, name := range c.files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		exists, err := Exists(dir)
		require.NoError(t, err)
		require.Equal(t, c.exists, exists, "%v", c.files)
	}
	exists, err := Exists(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	require.False(t, exists)
}
