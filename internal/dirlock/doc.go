// Package dirlock locks directories, so that one process at a time uses their files.
package dirlock

import "errors"

// ErrLocked is returned when another holder, in this process or another, has the lock of the directory.
var ErrLocked = errors.New("directory is in use")
