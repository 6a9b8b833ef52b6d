package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// recoverSegments adds the segments that follow the last listed one to the manifest: those that a Write which was
// killed could not list, or that are younger than a manifest which was restored from a copy. It then removes what a
// Write has left unfinished: files under temporary names, and a segment that has one of its two files. Nothing else is
// removed: other files of segments that are not listed make the error match ErrDamaged. It reports whether it has added
// any.
func (m *manifest) recoverSegments(dir string) (added bool, err error) {
	for {
		s, err := findSegment(dir, len(m.Segments)+1)
		if err != nil {
			return added, err
		}
		if s == nil {
			break
		}
		m.Segments = append(m.Segments, *s)
		added = true
	}
	listed := make(map[string]bool)
	for _, s := range m.Segments {
		listed[s.Name] = true
	}
	unfinished := nameOfSegment(len(m.Segments) + 1)
	segments, err := segmentsIn(dir)
	if err != nil {
		return added, err
	}
	for _, name := range segments {
		if !listed[name] && name != unfinished {
			return added, fmt.Errorf("%w: files of %s are there, which %s does not list, and %s is not there whole: "+
				"restore the missing files from a copy, or move those of later segments to another directory",
				ErrDamaged, name, manifestName, unfinished)
		}
	}
	return added, sweep(dir, unfinished)
}

// findSegment returns what a manifest has about the segment with a number, by its files; nil unless both are there.
func findSegment(dir string, number int) (*segment, error) {
	s := segment{Name: nameOfSegment(number)}
	for end, size := range map[string]*int64{segmentEnd: &s.Bytes, indexEnd: &s.IndexBytes} {
		file, err := os.Stat(filepath.Join(dir, s.Name+end))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		*size = file.Size()
	}
	entries, err := s.readIndex(dir)
	if err != nil {
		return nil, err
	}
	s.count(entries)
	var packed int64
	for _, e := range entries {
		packed += e.Bytes
	}
	if packed != s.Bytes {
		return nil, fmt.Errorf("%w: %s has %d bytes, not the %d of its index: restore the file from a copy", ErrDamaged,
			s.Name+segmentEnd, s.Bytes, packed)
	}
	return &s, s.noteSums(dir)
}

// sweep removes files under temporary names, and those of a segment.
func sweep(dir, segment string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := f.Name()
		if strings.HasPrefix(name, temporary) || name == segment+segmentEnd || name == segment+indexEnd {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
