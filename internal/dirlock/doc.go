// Package dirlock locks directories, so that one process at a time uses what is in them.
package dirlock

import "errors"

// ErrLocked says that another holder, in this process or another, has the lock of the directory.
var ErrLocked = errors.New("directory is in use")
