package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// segmentBegin begins the names of segments.
const segmentBegin = "runs-"

// segmentName is the form of a segment's name. A manifest with another one could make Open read files elsewhere.
var segmentName = regexp.MustCompile(`^` + segmentBegin + `[0-9]{6,18}$`)

func nameOfSegment(number int) string { return fmt.Sprintf("%s%06d", segmentBegin, number) }

// pending is a segment that is not written yet. Its runs are in a file under a temporary name, which a Write that is
// killed leaves for the next one to remove; their entries are in memory.
type pending struct {
	file    *os.File
	size    int64
	entries []Entry
}

// add adds a run, compressed by itself: a line with its entry, and those that follow hands to its argument. When that
// fails, the segment is as it was.
func (p *pending) add(dir string, e Entry, follow func(add func(line) error) error) (err error) {
	if p.file == nil {
		path := filepath.Join(dir, temporary+"segment")
		if p.file, err = os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
			return err
		}
	}
	e.Offset = p.size
	buffered := bufio.NewWriterSize(p.file, fileBuffer)
	packed := gzip.NewWriter(buffered)
	text := json.NewEncoder(packed)
	encode := func(l line) error {
		if err := text.Encode(l); err != nil {
			return fmt.Errorf("run %s of flow %s: %w", e.Run, e.Flow, err)
		}
		return nil
	}
	bare := e
	bare.Offset = 0
	err = encode(line{Format: format, Run: &bare})
	if err == nil {
		err = follow(encode)
	}
	for _, end := range []func() error{packed.Close, buffered.Flush} {
		if err == nil {
			err = end()
		}
	}
	if err == nil {
		e.Bytes, err = p.file.Seek(0, io.SeekCurrent)
		e.Bytes -= e.Offset
	}
	if err != nil {
		_, seek := p.file.Seek(p.size, io.SeekStart)
		if undone := errors.Join(seek, p.file.Truncate(p.size)); undone != nil {
			return undone // whatever else it was, even errChanged: the segment cannot go on
		}
		return err
	}
	p.size += e.Bytes
	p.entries = append(p.entries, e)
	return nil
}

// fileBuffer is how many compressed bytes are written at a time.
const fileBuffer = 1 << 18

// put gives the file of the runs its name.
func (p *pending) put(dir, name string) error {
	path := p.file.Name()
	err := errors.Join(p.file.Sync(), p.file.Close())
	p.file = nil
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return os.Rename(path, filepath.Join(dir, name))
}

// drop removes the file of runs that are not written.
func (p *pending) drop() error {
	if p.file == nil {
		return nil
	}
	return errors.Join(p.file.Close(), os.Remove(p.file.Name()))
}

// segment returns what the manifest says about the segment with a number, and its index.
func (p *pending) segment(number int) (s segment, index []byte, err error) {
	s = segment{Name: nameOfSegment(number), Bytes: p.size}
	s.count(p.entries)
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, e := range p.entries {
		if err := lines.Encode(e); err != nil {
			return s, nil, err
		}
	}
	s.IndexBytes = int64(b.Len())
	return s, b.Bytes(), nil
}

// count sets what the manifest says about the entries of a segment.
func (s *segment) count(entries []Entry) {
	s.Runs = len(entries)
	for _, e := range entries {
		if s.From.IsZero() || e.ClosedAt.Before(s.From) {
			s.From = e.ClosedAt
		}
		if e.ClosedAt.After(s.Until) {
			s.Until = e.ClosedAt
		}
	}
}

// put writes the manifest. What it lists must have been written.
func (m manifest) put(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := syncDir(dir); err != nil { // the files that it lists, before it
		return err
	}
	if err := putFile(dir, manifestName, append(data, '\n')); err != nil {
		return err
	}
	return syncDir(dir)
}
