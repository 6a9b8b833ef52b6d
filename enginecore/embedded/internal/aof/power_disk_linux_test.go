package aof

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// sectorSize is the unit in bytes that a disk writes at once. A power cut may tear a sector that is being written.
const sectorSize = 512

// inode identifies a file, whatever its name.
type inode uint64

// names are the entries of a directory.
type names map[string]inode

// powerDisk records the operations of a log on a directory, and computes the states that a power cut may leave: all
// synced data, and any part of the rest. Contents are durable once their file was synced, names once their directory
// was.
type powerDisk struct {
	t   *testing.T
	dir string
	// at is called before each operation of the log, with its number.
	at func(n int, op Op)

	mu         sync.Mutex
	operations int
	// contents has for each file its last synced content, followed by each content since. A file that was never synced
	// begins with an empty content.
	contents map[inode][][]byte
	// entries has the last synced entries of the directory, followed by each later state.
	entries []names
	// isKept reports that the entry of the directory itself was synced.
	isKept bool
	files  map[inode]*os.File // keep the numbers of files that were removed from being used again
}

func newPowerDisk(t *testing.T, dir string, isKept bool) *powerDisk {
	d := &powerDisk{t: t, dir: dir, isKept: isKept, contents: map[inode][][]byte{}, files: map[inode]*os.File{}}
	t.Cleanup(func() {
		for _, f := range d.files {
			_ = f.Close()
		}
	})
	d.entries = []names{d.look()}
	for ino, versions := range d.contents {
		d.contents[ino] = versions[len(versions)-1:] // contents at the beginning of the test are durable
	}
	return d
}

// look returns the entries that the directory has now, and notes the contents of the files.
func (d *powerDisk) look() names {
	list := names{}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return list // it is not there yet
	}
	for _, entry := range entries {
		path := filepath.Join(d.dir, entry.Name())
		info, err := os.Stat(path)
		if err != nil || strings.HasPrefix(entry.Name(), "LOCK") {
			continue // a lock need not outlive anything
		}
		ino := inode(info.Sys().(*syscall.Stat_t).Ino)
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		list[entry.Name()] = ino
		if d.files[ino] == nil {
			if d.files[ino], err = os.Open(path); err != nil {
				d.t.Error(err)
			}
			d.contents[ino] = [][]byte{nil}
		}
		if versions := d.contents[ino]; !slices.Equal(versions[len(versions)-1], data) {
			d.contents[ino] = append(versions, data)
		}
	}
	return list
}

// fault is Options.Fault. No operation fails.
func (d *powerDisk) fault(op Op, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.look(); !maps.Equal(now, d.entries[len(d.entries)-1]) {
		d.entries = append(d.entries, now)
	}
	d.operations++
	if d.at != nil {
		d.at(d.operations, op)
	}
	switch op {
	case OpSync:
		info, err := os.Stat(name)
		if err != nil {
			d.t.Error(err)
			return nil
		}
		ino := inode(info.Sys().(*syscall.Stat_t).Ino)
		versions := d.contents[ino]
		d.contents[ino] = versions[len(versions)-1:]
	case OpSyncDir:
		if name != d.dir {
			d.isKept = true
			break
		}
		d.entries = d.entries[len(d.entries)-1:]
	}
	return nil
}

// The parts of unsynced data that a power cut leaves.
const (
	cutNothing = iota // nothing of it
	cutAll            // everything, as a kill of the process does
	cutMixed          // any part, by chance
)

// cut writes the directory that a power cut leaves into an empty one.
func (d *powerDisk) cut(how int, random *rand.Rand, into string) error {
	if !d.isKept && (how == cutNothing || how == cutMixed && random.IntN(2) == 0) {
		return nil
	}
	for name, ino := range d.cutNames(how, random) {
		data := cutContent(d.contents[ino], how, random)
		if err := os.WriteFile(filepath.Join(into, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// cutNames returns the entries that are left. Changes of the directory reach the disk in their order or in any other; a
// file that was kept under one name is there under that or the next.
func (d *powerDisk) cutNames(how int, random *rand.Rand) names {
	switch last := len(d.entries) - 1; {
	case how == cutNothing:
		return d.entries[0]
	case how == cutAll:
		return d.entries[last]
	case random.IntN(2) == 0:
		return d.entries[random.IntN(last+1)]
	}
	left := names{}
	for _, version := range d.entries {
		for name := range version {
			if from := d.entries[random.IntN(len(d.entries))]; from[name] != 0 {
				left[name] = from[name]
			}
		}
	}
	reached := slices.Collect(maps.Values(left))
	for _, ino := range d.entries[0] {
		for name, now := range d.entries[len(d.entries)-1] {
			if now == ino && !slices.Contains(reached, ino) {
				left[name] = ino // it was renamed, which does not lose it
			}
		}
	}
	return left
}

// cutContent returns the rest of a file after a cut: each sector from one of its contents, or torn between two.
func cutContent(versions [][]byte, how int, random *rand.Rand) []byte {
	last := versions[len(versions)-1]
	switch {
	case how == cutNothing:
		return versions[0]
	case how == cutAll || len(versions) == 1:
		return last
	}
	pick := func() []byte { return versions[random.IntN(len(versions))] }
	data := make([]byte, len(pick()))
	for from := 0; from < len(data); from += sectorSize {
		sector := data[from:min(from+sectorSize, len(data))]
		whole := pick()
		copy(sector, whole[min(from, len(whole)):])
		if random.IntN(4) == 0 {
			torn := random.IntN(len(sector))
			other := pick()
			copy(sector[torn:], other[min(from+torn, len(other)):])
		}
	}
	return data
}

// describe lists the files of a directory for a failed test.
func describe(dir string) string {
	var b strings.Builder
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		data, _ := os.ReadFile(filepath.Join(dir, entry.Name()))
		fmt.Fprintf(&b, "%s %d bytes %.200q\n", entry.Name(), len(data), data)
	}
	return b.String()
}
