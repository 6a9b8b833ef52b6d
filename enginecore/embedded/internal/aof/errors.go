package aof

import (
	"errors"
	"fmt"
)

var (
	// ErrLocked is returned by Open when another log, in this process or another, has the data directory open.
	ErrLocked = errors.New("embedded: data directory is in use")
	// ErrCorrupt is returned by Open when the data directory holds a damaged file. The error is a *CorruptError.
	ErrCorrupt = errors.New("embedded: data is damaged")
)

// CorruptError describes the damage of a data directory. It matches ErrCorrupt.
type CorruptError struct {
	Path   string
	Offset int64
	Reason string
}

// Error names file, offset in bytes and reason.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("embedded: %s is damaged at offset %d: %s", e.Path, e.Offset, e.Reason)
}

// Is reports whether target is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
