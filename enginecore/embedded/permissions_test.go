//go:build unix

package embedded

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFilesAreForTheirOwner checks that no other user may read a data directory, whatever was written into it.
func TestFilesAreForTheirOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	e := open(t, Options{Dir: dir, LogLimit: 1 << 10})
	c := connect(t, e)
	for range 40 {
		c.must(t, "APPEND", "k", string(make([]byte, 100)))
	}
	require.NoError(t, e.Close())
	seen := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s: %s", path, info.Mode())
		seen++
		return nil
	}))
	require.GreaterOrEqual(t, seen, 4)
}
