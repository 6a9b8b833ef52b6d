//go:build unix

package dirlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// dirLock is the lock of a directory.
type dirLock []*os.File

// Close releases the lock, also while a child process that was forked and has not executed its program yet holds
// copies of the files.
func (l dirLock) Close() error {
	var errs []error
	for _, f := range l {
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing the file would suffice if no process had a copy of it
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Lock takes the exclusive lock of a directory: the file LOCK, and the directory itself, because the file may be
// removed. The system releases both when the process dies. The error wraps ErrLocked when another holder has the
// lock.
func Lock(dir string) (io.Closer, error) {
	var lock dirLock
	for _, part := range []struct {
		path  string
		flags int
	}{{dir, os.O_RDONLY}, {filepath.Join(dir, lockFile), os.O_CREATE | os.O_RDWR}} {
		f, err := os.OpenFile(part.path, part.flags, 0o600)
		if err != nil {
			_ = lock.Close()
			return nil, err
		}
		lock = append(lock, f)
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
		case errors.Is(err, syscall.EWOULDBLOCK):
			_ = lock.Close()
			return nil, locked(dir, filepath.Join(dir, lockFile))
		case part.path == dir:
			// Some network file systems lock files only; the file has to do there.
		default:
			_ = lock.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
	}
	noteHolder(lock[len(lock)-1])
	return lock, nil
}
