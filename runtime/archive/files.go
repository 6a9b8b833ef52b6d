package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// format is the version of the files.
	format       = 1
	manifestName = "manifest.json"
	segmentEnd   = ".jsonl.gz"
	indexEnd     = ".index.jsonl"
	// temporary begins the names of files that are being written.
	temporary = "tmp-"
)

// manifest lists what an archive has.
type manifest struct {
	Format   int       `json:"format"`
	Segments []segment `json:"segments"`
}

// segment is one file of runs.
type segment struct {
	Name string `json:"name"` // of its files, without their ends
	Runs int    `json:"runs"`
	// Bytes and IndexBytes are the sizes of its files.
	Bytes      int64 `json:"bytes"`
	IndexBytes int64 `json:"index_bytes"`
	// From and Until are the ends of the first and the last run that ended.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// readManifest returns the manifest of a directory; an empty one if there is none.
func readManifest(dir string) (m manifest, err error) {
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{Format: format}, nil
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%w: %s: %w", ErrDamaged, manifestName, err)
	}
	if m.Format != format {
		return m, fmt.Errorf("%s: format %d: this program reads format %d", manifestName, m.Format, format)
	}
	for _, s := range m.Segments {
		if !segmentName.MatchString(s.Name) {
			return m, fmt.Errorf("%w: %s: %.80q is no name of a segment", ErrDamaged, manifestName, s.Name)
		}
		for end, size := range map[string]int64{segmentEnd: s.Bytes, indexEnd: s.IndexBytes} {
			file, err := os.Stat(filepath.Join(dir, s.Name+end))
			if err != nil {
				return m, fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			if file.Size() != size {
				return m, fmt.Errorf("%w: %s has %d bytes, not %d", ErrDamaged, s.Name+end, file.Size(), size)
			}
		}
	}
	return m, nil
}

// until is the latest end of a run in the archive.
func (m manifest) until() (last time.Time) {
	for _, s := range m.Segments {
		if s.Until.After(last) {
			last = s.Until
		}
	}
	return last
}

// index returns the entries of a segment, in their order.
func (s segment) index(dir string) ([]Entry, error) {
	data, err := os.ReadFile(filepath.Join(dir, s.Name+indexEnd))
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for text := range bytes.Lines(data) {
		e := Entry{segment: s.Name}
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, s.Name+indexEnd, err)
		}
		entries = append(entries, e)
	}
	if len(entries) != s.Runs {
		return nil, fmt.Errorf("%w: %s has %d runs, not %d", ErrDamaged, s.Name+indexEnd, len(entries), s.Runs)
	}
	return entries, nil
}

// sweep removes what a Write that was killed has left behind: files that are not in the manifest.
func (m manifest) sweep(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := f.Name()
		base, found := strings.CutSuffix(name, segmentEnd)
		if !found {
			base, found = strings.CutSuffix(name, indexEnd)
		}
		listed := slices.ContainsFunc(m.Segments, func(s segment) bool { return s.Name == base })
		if strings.HasPrefix(name, temporary) || found && strings.HasPrefix(name, segmentBegin) && !listed {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// putFile writes a file whole or not at all: under another name, synced, and renamed.
func putFile(dir, name string, data []byte) error {
	path := filepath.Join(dir, temporary+name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(dir, name))
}

// syncDir makes renames in a directory outlive a power cut.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // a directory cannot be synced there; its journal orders renames
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
