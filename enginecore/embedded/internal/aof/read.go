package aof

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// readTries bounds how often Read begins again because the files changed while it read them.
const readTries = 5

// Read loads the content of a data directory at a moment into data that fresh returns, and changes nothing there. It
// takes no lock: another process may have the directory open. All that the process has acknowledged before the call is
// there, and every unit either completely or not at all. The error matches fs.ErrNotExist for a directory without an
// engine, and is a *CorruptError when the directory is damaged other than by a torn end of the log.
func Read(ctx context.Context, dir string, fresh func() Data) (Data, error) {
	exists, err := Exists(dir)
	if err == nil && !exists {
		err = fmt.Errorf("the directory %s contains no engine: %w", dir, fs.ErrNotExist)
	}
	for try := 0; err == nil; try++ {
		d := &disk{dir: dir}
		data := fresh()
		ld := &loader{d: d, data: data, upTo: -1}
		var known *manifest
		if known, err = d.readManifest(); err == nil {
			ld.known = known
			err = ld.load(ctx)
		}
		if err == nil {
			return data, nil
		}
		// A log that a snapshot replaces during the read looks as if a file were missing, or one too many.
		var damage *CorruptError
		if (errors.As(err, &damage) || errors.Is(err, fs.ErrNotExist)) && try < readTries {
			err = ctx.Err()
		}
	}
	return nil, err
}

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

// Exists reports whether an engine has been opened in a directory before. It changes nothing there. A missing directory
// is not an error. In a directory with a lock and unfinished files alone no engine was opened: they remain where the
// disk was full.
func Exists(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("embedded: data directory: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasSuffix(name, tmpSuffix) {
			continue
		}
		// Of an engine whose log was removed, the manifest alone stays.
		if name == "MANIFEST" || strings.HasPrefix(name, "log-") || strings.HasPrefix(name, "snapshot-") {
			return true, nil
		}
	}
	return false, nil
}
