package archive

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// Archive reads the archive in a directory, with the runs that it had when it was opened. It is safe for concurrent
// use, also while Write adds to it.
type Archive struct {
	dir      string
	manifest manifest
}

// Open reads the manifest of an archive. The error matches fs.ErrNotExist for a directory that does not exist, and
// ErrDamaged when there are segments without a manifest, or with one that is damaged. A directory with none of these
// files is an empty archive. Open does not check the segments; the methods check those that they read.
func Open(dir string) (*Archive, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	m, err := readManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", dir, err)
	}
	return &Archive{dir, m}, nil
}

// Entries yields the entries of a flow, or of all flows if it is empty, in the order in which they were archived,
// which is roughly the order of their ends. An error is about the files of one segment: it matches ErrDamaged or comes
// from the file system, and names the file. A caller that continues gets the entries that can be read, of this segment
// and of those that follow.
func (a *Archive) Entries(flow string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, s := range a.manifest.Segments {
			entries, err := s.index(a.dir)
			err = errors.Join(checkSize(a.dir, s.Name+segmentEnd, s.Bytes), err)
			if err != nil && !yield(Entry{}, fmt.Errorf("archive %s: %w", a.dir, err)) {
				return
			}
			for _, e := range entries {
				if (flow == "" || e.Flow == flow) && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Run returns the last archived end of a run. It searches the index of each segment, the last one first. The error
// matches ErrNotFound or ErrDamaged. A damaged segment does not keep the runs of others from being read: if the index
// of a later one cannot be read, which may have a later end, Run returns the run together with an error.
func (a *Archive) Run(flow, run string) (*Run, error) {
	var unread error // the indexes that cannot be read
	for _, s := range slices.Backward(a.manifest.Segments) {
		entries, err := s.index(a.dir)
		unread = errors.Join(unread, err)
		for _, e := range slices.Backward(entries) {
			if e.Flow != flow || e.Run != run {
				continue
			}
			found, err := a.Read(e)
			if unread != nil {
				unread = fmt.Errorf("archive %s: run %s of flow %s may have a later end, which cannot be read: %w",
					a.dir, run, flow, unread)
			}
			return found, errors.Join(err, unread)
		}
	}
	if unread != nil {
		return nil, fmt.Errorf("archive %s: run %s of flow %s is not in what can be read: %w", a.dir, run, flow, unread)
	}
	return nil, fmt.Errorf("archive %s: run %s of flow %s: %w", a.dir, run, flow, ErrNotFound)
}

// Read returns the run of an entry of this archive. The error matches ErrDamaged when its bytes are not those that
// were written.
func (a *Archive) Read(e Entry) (*Run, error) {
	run, err := a.read(e)
	if err != nil {
		return nil, fmt.Errorf("archive %s: run %s of flow %s: %s: %w", a.dir, e.Run, e.Flow, e.segment+segmentEnd, err)
	}
	return run, nil
}

func (a *Archive) read(e Entry) (run *Run, err error) {
	file, err := os.Open(filepath.Join(a.dir, e.segment+segmentEnd))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return readRun(file, e)
}

// readRun reads the run of an entry from its segment, to the end, where its checksum is. The error matches ErrDamaged.
func readRun(segment io.ReaderAt, e Entry) (*Run, error) {
	packed, err := gzip.NewReader(io.NewSectionReader(segment, e.Offset, e.Bytes))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	run := &Run{Entry: e}
	lines := json.NewDecoder(packed)
	for first := true; ; first = false {
		var l line
		err := lines.Decode(&l)
		switch {
		case errors.Is(err, io.EOF) && len(run.Pages) > 0:
			return run, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		case first && (l.Format != format || l.Run == nil || !l.Run.sameEnd(e)), !first && l.Run != nil:
			return nil, fmt.Errorf("%w: it has another run there", ErrDamaged)
		}
		run.add(l)
	}
}

// Descriptions yields the descriptions of the runs of a flow, or of all flows if it is empty, with their values, in
// pages, as runcheck.Program.Check and flowtest.CheckRuns take them. It yields the errors of Entries and Read.
func (a *Archive) Descriptions(flow string) iter.Seq2[*runtime.RunDescription, error] {
	return func(yield func(*runtime.RunDescription, error) bool) {
		for e, err := range a.Entries(flow) {
			var run *Run
			if err == nil {
				run, err = a.Read(e)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, page := range run.Pages {
				if !yield(page, nil) {
					return
				}
			}
		}
	}
}
