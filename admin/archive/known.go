package archive

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// end is one end of a run.
type end struct {
	id enginecore.FlowID
	at int64 // ms
}

func endOf(id enginecore.FlowID, at time.Time) end { return end{id, at.UnixMilli()} }

// known finds the ends of runs that an archive has. It reads the indexes of those segments alone whose runs ended at
// the time that is asked for, and keeps the last few of them.
type known struct {
	dir     string
	indexes []index
}

// maxIndexes is how many indexes stay in memory. Runs are asked for by the times of their ends, so one segment follows
// another; child runs have ended a little earlier.
const maxIndexes = 8

// index is the index of a segment by ends.
type index struct {
	segment string
	entries map[end]Entry
}

// find returns the entry of an end, if a segment of the manifest has it.
func (k *known) find(m manifest, id enginecore.FlowID, at time.Time) (e Entry, has bool, err error) {
	for _, s := range slices.Backward(m.Segments) {
		if at.UnixMilli() < s.From.UnixMilli() || at.UnixMilli() > s.Until.UnixMilli() {
			continue
		}
		entries, err := k.index(s)
		if err != nil {
			return e, false, err
		}
		if e, has = entries[endOf(id, at)]; has {
			return e, true, nil
		}
	}
	return e, false, nil
}

// index returns the index of a segment.
func (k *known) index(s segment) (map[end]Entry, error) {
	if at := slices.IndexFunc(k.indexes, func(x index) bool { return x.segment == s.Name }); at >= 0 {
		found := k.indexes[at]
		k.indexes = append(slices.Delete(k.indexes, at, at+1), found)
		return found.entries, nil
	}
	list, err := s.index(k.dir)
	if err != nil {
		return nil, err
	}
	entries := make(map[end]Entry, len(list))
	for _, e := range list {
		entries[endOf(e.FlowID, e.ClosedAt)] = e
	}
	if len(k.indexes) == maxIndexes {
		k.indexes = slices.Delete(k.indexes, 0, 1)
	}
	k.indexes = append(k.indexes, index{s.Name, entries})
	return entries, nil
}

// verify reads the run of an entry, to its end. The error matches ErrDamaged unless the segment has the run of which
// its index speaks, with the content that was written.
func (k *known) verify(e Entry) error {
	file, err := os.Open(filepath.Join(k.dir, e.segment+segmentEnd))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = readRun(file, e)
	return err
}
