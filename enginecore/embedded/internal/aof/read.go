package aof

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
