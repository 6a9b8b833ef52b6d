package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// sum recognizes the content of a file.
type sum struct {
	// SHA256 is that of the content, in hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Modified is the time of the file when its content was last compared with SHA256. While it is the same, the
	// content is not read again.
	Modified time.Time `json:"modified"`
}

// checkFiles compares the files of all segments with the manifest. It reads the content of those that were touched
// since it was last compared, as all are after a copy was restored. The error matches ErrDamaged for each file that is
// missing or has other content. It reports whether it has noted times, which the manifest should keep.
func (m *manifest) checkFiles(dir string) (noted bool, err error) {
	var faults []error
	for i := range m.Segments {
		s := &m.Segments[i]
		changed, fault := s.Sum.check(dir, s.Name+segmentEnd, s.Bytes)
		changedIndex, indexFault := s.IndexSum.check(dir, s.Name+indexEnd, s.IndexBytes)
		noted = noted || changed || changedIndex
		faults = append(faults, fault, indexFault)
	}
	return noted, errors.Join(faults...)
}

// check compares a file with its sum and its size, and notes its time if its content had to be read.
func (s *sum) check(dir, name string, size int64) (noted bool, err error) {
	if err := checkSize(dir, name, size); err != nil {
		return false, err
	}
	modified, err := modifiedAt(dir, name)
	if err != nil || s.SHA256 != "" && modified.Equal(s.Modified) {
		return false, err
	}
	now, err := sumOf(dir, name)
	if err != nil {
		return false, err
	}
	if s.SHA256 != "" && s.SHA256 != now.SHA256 {
		return false, fmt.Errorf("%w: %s has other content than was written, by its SHA-256: restore it from a copy",
			ErrDamaged, name)
	}
	*s = now
	return true, nil
}

// checkSize returns an error that matches ErrDamaged if a file is missing or has another size.
func checkSize(dir, name string, size int64) error {
	file, err := os.Stat(filepath.Join(dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is missing: restore it from a copy: %w", ErrDamaged, name, err)
	case err != nil:
		return err
	case file.Size() != size:
		return fmt.Errorf("%w: %s has %d bytes, not %d: restore it from a copy", ErrDamaged, name, file.Size(), size)
	}
	return nil
}

func modifiedAt(dir, name string) (time.Time, error) {
	file, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return time.Time{}, err
	}
	return file.ModTime().UTC(), nil
}

// sumOf reads a file.
func sumOf(dir, name string) (s sum, err error) {
	if s.Modified, err = modifiedAt(dir, name); err != nil {
		return s, err
	}
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return s, err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	s.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return s, errors.Join(err, file.Close())
}

// noteSums notes the sums of a segment's files, which have been written.
func (s *segment) noteSums(dir string) (err error) {
	if s.Sum, err = sumOf(dir, s.Name+segmentEnd); err != nil {
		return err
	}
	s.IndexSum, err = sumOf(dir, s.Name+indexEnd)
	return err
}
