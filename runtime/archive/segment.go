package archive

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"regexp"
)

// segmentBegin begins the names of segments.
const segmentBegin = "runs-"

// segmentName is the form of a segment's name. A manifest with another one could make Open read files elsewhere.
var segmentName = regexp.MustCompile(`^` + segmentBegin + `[0-9]{6,18}$`)

func nameOfSegment(number int) string { return fmt.Sprintf("%s%06d", segmentBegin, number) }

// pending is a segment that is not written yet.
type pending struct {
	data    bytes.Buffer
	entries []Entry
}

// add adds a run, whose first line has its entry, compressed by itself.
func (p *pending) add(lines []line) error {
	e := *lines[0].Run
	e.Offset = int64(p.data.Len())
	packed := gzip.NewWriter(&p.data)
	text := json.NewEncoder(packed)
	for _, l := range lines {
		if err := text.Encode(l); err != nil {
			return fmt.Errorf("run %s of flow %s: %w", e.Run, e.Flow, err)
		}
	}
	if err := packed.Close(); err != nil {
		return err
	}
	e.Bytes = int64(p.data.Len()) - e.Offset
	p.entries = append(p.entries, e)
	return nil
}

// segment returns what the manifest says about the segment with a number, and its index.
func (p *pending) segment(number int) (s segment, index []byte, err error) {
	s = segment{Name: nameOfSegment(number), Bytes: int64(p.data.Len())}
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
