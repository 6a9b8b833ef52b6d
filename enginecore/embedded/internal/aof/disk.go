package aof

import (
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// logFile is the part of *os.File that the log uses; tests replace it with failing ones.
type logFile interface {
	WriteAt(p []byte, off int64) (int, error)
	Sync() error
	Truncate(size int64) error
	Close() error
	Name() string
}

// disk is the data directory as the log uses it.
type disk struct {
	dir string
	// fault fails operations in tests: it is called before each, and its error replaces the operation. It is nil
	// otherwise.
	fault func(op Op, name string) error
}

// Op is an operation on the disk that may fail.
type Op string

// The operations that Options.Fault is called for.
const (
	OpCreate   Op = "create"
	OpRead     Op = "read"
	OpWrite    Op = "write"
	OpSync     Op = "sync"
	OpTruncate Op = "truncate"
	OpRename   Op = "rename"
	OpSyncDir  Op = "syncdir"
)

func (d *disk) check(op Op, name string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(op, name)
}

// diskFile is a file of the data directory that is written.
type diskFile struct {
	*os.File
	d *disk
}

// WriteAt implements logFile. A fault leaves half of the write in the file, as a full disk may.
func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.d.check(OpWrite, f.Name()); err != nil {
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, err
	}
	return f.File.WriteAt(p, off)
}

// Write appends, for files that are written in one go.
func (f *diskFile) Write(p []byte) (int, error) {
	if err := f.d.check(OpWrite, f.Name()); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// Sync implements logFile.
func (f *diskFile) Sync() error {
	if err := f.d.check(OpSync, f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

// Truncate implements logFile.
func (f *diskFile) Truncate(size int64) error {
	if err := f.d.check(OpTruncate, f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// create opens an empty file for writing.
func (d *disk) create(path string) (*diskFile, error) {
	return d.open(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY)
}

func (d *disk) open(path string, flags int) (*diskFile, error) {
	if err := d.check(OpCreate, path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d}, nil
}

func (d *disk) read(path string) ([]byte, error) {
	if err := d.check(OpRead, path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// publish gives a file that is synced and closed its name, durably. After an error, renamed reports whether the name
// may already be in place.
func (d *disk) publish(tmp, path string) (renamed bool, err error) {
	if err := d.check(OpRename, path); err != nil {
		return false, err
	}
	if err := os.Rename(tmp, path); err != nil {
		return false, err
	}
	return true, d.syncNames()
}

// keepDirectory makes the names of a new data directory, and of those above it that were missing, durable. One that may
// not be read, and so cannot be synced, is left to the system.
func (d *disk) keepDirectory(above []string) error {
	for _, path := range above {
		if err := d.syncDir(path); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// syncNames makes the names in the directory durable.
func (d *disk) syncNames() error { return d.syncDir(d.dir) }

func (d *disk) syncDir(dir string) error {
	if err := d.check(OpSyncDir, dir); err != nil {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !dirSyncUnsupported {
		return err
	}
	return nil
}

// put replaces a file atomically and durably: its name refers to either the new content or the previous one.
func (d *disk) put(path string, data []byte) (renamed bool, err error) {
	tmp := path + tmpSuffix
	if err := d.fill(tmp, data); err != nil {
		_ = os.Remove(tmp)
		return false, err
	}
	if renamed, err = d.publish(tmp, path); err != nil && !renamed {
		_ = os.Remove(tmp)
	}
	return renamed, err
}

// fill writes, syncs and closes a file.
func (d *disk) fill(path string, data []byte) error {
	f, err := d.create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// tmpSuffix marks a file that has not got its name yet. Open removes it.
const tmpSuffix = ".tmp"

// minRoom is how much must fit on the disk, in bytes, before a log that could not be written is tried again.
const minRoom = 64 << 10

// tryRoom reports why the disk does not take n more bytes. They are random, since a file system may store others in
// less.
func (d *disk) tryRoom(n int) error {
	path := filepath.Join(d.dir, "room"+tmpSuffix)
	data := make([]byte, max(n, minRoom))
	_, _ = cryptorand.Read(data) // it never fails
	err := d.fill(path, data)
	if rm := os.Remove(path); err == nil && rm != nil {
		err = rm
	}
	return err
}

func (d *disk) logPath(gen uint64) string {
	return filepath.Join(d.dir, fmt.Sprintf("log-%012d", gen))
}

func (d *disk) snapshotPath(gen uint64) string {
	return filepath.Join(d.dir, fmt.Sprintf("snapshot-%012d", gen))
}

// createLog starts an empty log file that survives a crash from here on. A log file with half a header never has its
// name.
func (d *disk) createLog(gen, seq uint64) (*diskFile, error) {
	path := d.logPath(gen)
	renamed, err := d.put(path, record.FileHeader(gen, seq))
	if err == nil {
		var f *diskFile
		if f, err = d.open(path, os.O_WRONLY); err == nil {
			return f, nil
		}
	}
	if renamed {
		_ = os.Remove(path) // Open removes a file that stays, as the manifest does not name it
	}
	return nil, err
}
