package dirlock

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrLocked is returned when another holder, in this process or another, has the lock of the directory.
var ErrLocked = errors.New("directory is in use")

// lockFile is the file in the directory. From its second byte on, which no system locks, it has the number of the
// process that locked it last.
const lockFile = "LOCK"

// noteHolder writes the number of this process into the file, for the errors of others.
func noteHolder(f *os.File) {
	// A file system without room, or one that can only be read, takes no number: the lock holds without it.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 1)
	}
}

// locked is the error for a directory that another holder has locked.
func locked(dir, file string) error {
	text, err := os.OpenFile(file, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	defer text.Close()
	var number [20]byte
	n, _ := text.ReadAt(number[:], 1)
	pid, err := strconv.Atoi(strings.TrimSpace(string(number[:n])))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s", ErrLocked, dir)
	case pid == os.Getpid():
		return fmt.Errorf("%w: %s, by this process", ErrLocked, dir)
	default:
		return fmt.Errorf("%w: %s, by process %d", ErrLocked, dir, pid)
	}
}
