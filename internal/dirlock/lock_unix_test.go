//go:build unix

package dirlock

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that is started while a directory is closed has copies of the files for a moment: they keep nothing locked.
func TestLockIsReleasedThoughCopiesAreOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := Lock(dir)
	require.NoError(t, err)
	for _, f := range lock.(dirLock) {
		copied, err := syscall.Dup(int(f.Fd()))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, syscall.Close(copied)) })
	}
	_, err = Lock(dir)
	require.ErrorIs(t, err, ErrLocked)
	require.EqualError(t, err, "directory is in use: "+dir+", by this process")
	require.NoError(t, lock.Close())
	lock, err = Lock(dir)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}
