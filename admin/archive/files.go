package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime"
)

const (
	// format is the version of the files.
	format       = 2
	manifestName = "manifest.json"
	segmentEnd   = ".jsonl.gz"
	indexEnd     = ".index.jsonl"
	// temporary begins the names of files that are being written.
	temporary = "tmp-"
)

// manifest lists the segments of an archive.
type manifest struct {
	Format int `json:"format"`
	// Prefix and Namespace identify the engine whose runs it has. Archives of former versions have neither.
	Prefix    string    `json:"prefix,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Segments  []segment `json:"segments"`
	// Seen is the end up to which Write has read all runs that had ended, and Scanned the time at which it last read
	// all runs of the engine, by the clock of its process. Neither is in the future of that clock.
	Seen    time.Time `json:"seen,omitzero"`
	Scanned time.Time `json:"scanned,omitzero"`
}

// segment is one file of runs.
type segment struct {
	Name string `json:"name"` // of its files, without their ends
	Runs int    `json:"runs"`
	// Bytes and IndexBytes are the sizes of its files, and Sum and IndexSum how their content is recognized.
	Bytes      int64 `json:"bytes"`
	IndexBytes int64 `json:"index_bytes"`
	Sum        sum   `json:"sum"`
	IndexSum   sum   `json:"index_sum"`
	// From and Until are the ends of the first and the last run that ended.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// readManifest returns the manifest of a directory; an empty one for a directory without an archive. The error matches
// ErrDamaged if there are segments without a manifest.
func readManifest(dir string) (m manifest, err error) {
	segments, err := segmentsIn(dir) // before the manifest: Write creates it before the first segment
	if err != nil {
		return m, err
	}
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(segments) > 0:
		return m, fmt.Errorf("%w: %s is missing, and there are %d segments, such as %s: restore it from a copy of the "+
			`archive, or put {"format": %d} in its place, with which the next Write lists the segments`,
			ErrDamaged, manifestName, len(segments), segments[0], format)
	case errors.Is(err, fs.ErrNotExist):
		return manifest{Format: format}, nil
	case err != nil:
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
			return m, fmt.Errorf("%w: %s: %.80q is not a name of a segment", ErrDamaged, manifestName, s.Name)
		}
	}
	return m, nil
}

// belongTo makes the archive one of a namespace. The error matches runtime.ErrInvalid if it is one of another.
func (m *manifest) belongTo(prefix, namespace string) (changed bool, err error) {
	if m.Prefix == "" && m.Namespace == "" {
		m.Prefix, m.Namespace = prefix, namespace
		return true, nil
	}
	if m.Prefix != prefix || m.Namespace != namespace {
		return false, fmt.Errorf("%w: the archive has the runs of the namespace %q with the prefix %q, not of %q with "+
			"the prefix %q: name another directory", runtime.ErrInvalid, m.Namespace, m.Prefix, namespace, prefix)
	}
	return false, nil
}

// segmentsIn returns the names of the segments of which a directory has files, sorted.
func segmentsIn(dir string) (names []string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		for _, end := range []string{segmentEnd, indexEnd} {
			if name, found := strings.CutSuffix(f.Name(), end); found && segmentName.MatchString(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// scanFrom returns the end before which runs are left out: zero if all are to be read.
func (m manifest) scanFrom(now time.Time) time.Time {
	if m.Seen.IsZero() || m.Scanned.After(now) || m.Seen.After(now) || now.Sub(m.Scanned) >= wholeEvery {
		return time.Time{}
	}
	return m.Seen.Add(-overlap)
}

// index returns the entries of a segment, in their order.
func (s segment) index(dir string) ([]Entry, error) {
	if err := checkSize(dir, s.Name+indexEnd, s.IndexBytes); err != nil {
		return nil, err
	}
	entries, err := s.readIndex(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) != s.Runs {
		return nil, fmt.Errorf("%w: %s has %d runs, not %d", ErrDamaged, s.Name+indexEnd, len(entries), s.Runs)
	}
	return entries, nil
}

func (s segment) readIndex(dir string) (entries []Entry, err error) {
	data, err := os.ReadFile(filepath.Join(dir, s.Name+indexEnd))
	if err != nil {
		return nil, err
	}
	for text := range bytes.Lines(data) {
		e := Entry{segment: s.Name}
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, s.Name+indexEnd, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
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
	if goruntime.GOOS == "windows" { // a directory cannot be synced there; its journal orders renames
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
