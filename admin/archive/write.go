package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/dirlock"
	"github.com/flowfabric/flowfabric-go/internal/durabledir"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Config configures Write.
type Config struct {
	// Dir is the directory of the archive. It is created if it does not exist.
	Dir string
	// PurgeAfter purges runs that are archived and whose end is longer ago by the clock of this process. It takes the
	// place of the engine's retention: with OpenConfig.Retention{Default: flow.KeepForever}, no run is purged that
	// was not archived. Defaults to 0, which purges nothing.
	PurgeAfter time.Duration
	// Rescan makes Write read all runs that are over. Otherwise Write reads all of them once a day, when the clock of
	// this process was set back since the last time, and when a run to be purged is not in the archive; at other times,
	// it leaves out runs that ended more than an hour before the last end that an earlier Write has seen. Defaults to
	// false.
	Rescan bool
	// SegmentRuns and SegmentBytes end a segment: at most SegmentRuns runs, and not much more than SegmentBytes
	// compressed bytes. They default to 1,000 and 16 MiB. In memory are the entries of a segment, and a page of the run
	// that is read.
	SegmentRuns, SegmentBytes int

	// step is called before each change of files and each purge, for tests.
	step func(what string)
}

// Defaults and bounds of Config.
const (
	defaultSegmentRuns  = 1000
	defaultSegmentBytes = 16 << 20
	// overlap is the time before the last end that was seen in which an unseen run may have ended: clocks of the
	// servers of a cluster differ, and a run is listed a moment after its end.
	overlap = time.Hour
	// wholeEvery is the interval at which Write reads all runs. A run may have ended before the last end that was seen
	// without being listed then, if a clock that was ahead for a while, such as the clock of this process, was
	// corrected.
	wholeEvery = 24 * time.Hour
)

func (c Config) check() error {
	var faults []error
	if c.Dir == "" {
		faults = append(faults, errors.New("the field Dir is empty: name a directory"))
	}
	for name, value := range map[string]int64{
		"PurgeAfter": int64(c.PurgeAfter), "SegmentRuns": int64(c.SegmentRuns), "SegmentBytes": int64(c.SegmentBytes),
	} {
		if value < 0 {
			faults = append(faults, fmt.Errorf("%s %d: must not be negative", name, value))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("archive: %w: %w", runtime.ErrInvalid, errors.Join(faults...))
	}
	return nil
}

// Report is the result of Write.
type Report struct {
	// Archived counts the runs that were added, Known those that were in the archive already.
	Archived int `json:"archived"`
	Known    int `json:"known"`
	// Changed counts runs that were purged or run again while they were read, or before they were purged, and runs with
	// a child run that the archive does not have as it is: those are kept, and the next Write takes those that are over
	// again.
	Changed int `json:"changed"`
	// Purged counts the runs that were purged, without their child runs.
	Purged int `json:"purged"`
}

// Write adds all runs of the client's namespace that are over, child runs included, to the archive, unless it has
// them, and purges runs according to PurgeAfter. It may be interrupted and killed at any moment and repeated: no run is
// added twice, and none is purged before the segment that has it, and the manifest, are on disk. One Write at a time
// works on a directory; another one fails with ErrLocked.
//
// A run is purged with its child runs, and only while all of them are in the archive as they are: Write reads each of
// them from its segment to the end before the purge, and ends with ErrDamaged if one is not there as it was written.
// Before it changes anything it compares the files of all segments with the manifest: their sizes, and the content of
// those that were touched since it was last compared.
//
// The engine compares
// the end of the run with the archived one in the call that purges it (RunRef.PurgeIfClosedAt), so a run that is run
// again at any moment is kept until its new end is archived. Child runs, which may be on other servers, are compared
// before that call: a child run that is rerun by itself, not through its parent, after it was compared is purged with
// its parent.
//
// An archive has the runs of one namespace under one prefix, which its manifest has: Write refuses others with
// runtime.ErrInvalid. It cannot distinguish two engines with the same prefix and namespace.
//
// The report is valid with an error as well. The error matches runtime.ErrInvalid, ErrLocked or ErrDamaged, wraps
// runtime.ErrNotInContract in contract mode, is one of Client.Runs, RunRef.Describe, Watch, Logs and Purge, or one of
// the file system.
func Write(ctx context.Context, client *runtime.Client, c Config) (Report, error) {
	w := &writer{Config: c, client: client, known: known{dir: c.Dir}}
	w.SegmentRuns = cmp.Or(w.SegmentRuns, defaultSegmentRuns)
	w.SegmentBytes = cmp.Or(w.SegmentBytes, defaultSegmentBytes)
	if err := c.check(); err != nil {
		return w.report, err
	}
	s, err := engine.SessionOf(client.Internal())
	if err == nil {
		w.prefix, w.namespace = s.Core.Keys().Prefix(), string(s.Namespace)
		err = w.write(ctx)
	}
	if err != nil {
		err = fmt.Errorf("archive %s: %w", c.Dir, err)
	}
	return w.report, err
}

// writer is one Write.
type writer struct {
	Config
	client *runtime.Client
	// prefix and namespace come from the client.
	prefix, namespace string
	manifest          manifest
	known             known
	next              pending
	// since is before which ends runs are left out, and leftOut that one of them is not in the archive.
	since   time.Time
	leftOut bool
	report  Report
}

func (w *writer) write(ctx context.Context) (err error) {
	above, err := durabledir.Make(w.Dir)
	if err != nil {
		return err
	}
	lock, err := dirlock.Lock(w.Dir)
	if errors.Is(err, dirlock.ErrLocked) {
		return ErrLocked
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.next.drop(), lock.Close()) }()
	if err := w.begin(above); err != nil {
		return err
	}
	if w.since = w.manifest.scanFrom(time.Now()); w.Rescan {
		w.since = time.Time{}
	}
	if err := w.archive(ctx, w.since, time.Time{}); err != nil {
		return err
	}
	if w.PurgeAfter == 0 {
		return nil
	}
	if err := w.purge(ctx); err != nil || !w.leftOut {
		return err
	}
	return w.archive(ctx, time.Time{}, w.since)
}

// begin reads the manifest, which must be one of the client's namespace, and completes the archive of a Write that was
// killed. A new archive gets its manifest before its first segment: segments without one are damage. above are the
// directories that Write may have created.
func (w *writer) begin(above []string) (err error) {
	if w.manifest, err = readManifest(w.Dir); err != nil {
		return err
	}
	if len(w.manifest.Segments) == 0 {
		// Runs are purged once they are in the archive, so its name has to outlive a power cut as its files do.
		for _, dir := range above {
			if err := syncDir(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		}
	}
	named, err := w.manifest.belongTo(w.prefix, w.namespace)
	if err != nil {
		return err
	}
	noted, err := w.manifest.checkFiles(w.Dir)
	if err != nil {
		return err
	}
	added, err := w.manifest.recoverSegments(w.Dir)
	if err != nil {
		return err
	}
	if added || named || noted {
		w.at("first manifest")
		return w.manifest.put(w.Dir)
	}
	return nil
}

// archive adds the runs that ended in an interval, whose zero times are open, and are not in the archive.
func (w *writer) archive(ctx context.Context, from, before time.Time) error {
	began, seen := time.Now().UTC(), w.manifest.Seen
	query := runtime.RunQuery{
		Sort: "finished", FinishedFrom: from, FinishedBefore: before, Children: true,
	}
	for s, err := range w.client.Runs(ctx, query) {
		if err != nil {
			return err
		}
		if s.ClosedAt.After(seen) && !s.ClosedAt.After(began) {
			seen = s.ClosedAt
		}
		if err := w.add(ctx, s); err != nil {
			return err
		}
	}
	w.manifest.Seen = seen
	if from.IsZero() {
		w.manifest.Scanned = began
	}
	if len(w.next.entries) == 0 && from.IsZero() && len(w.manifest.Segments) > 0 {
		w.at("scanned")
		return w.manifest.put(w.Dir)
	}
	return w.flush()
}

// add adds a run unless the archive has it.
func (w *writer) add(ctx context.Context, s fabrictype.Run) error {
	_, has, err := w.known.find(w.manifest, enginecore.FlowID(s.FlowID), s.ClosedAt)
	if err != nil {
		return err
	}
	if has {
		w.report.Known++
		return nil
	}
	err = w.next.add(w.Dir, entryOf(s), func(add func(line) error) error { return w.read(ctx, s, add) })
	if errors.Is(err, errChanged) {
		w.report.Changed++
		return nil
	}
	if err != nil {
		return err
	}
	if len(w.next.entries) == w.SegmentRuns || w.next.size >= int64(w.SegmentBytes) {
		return w.flush()
	}
	return nil
}

func (w *writer) at(what string) {
	if w.step != nil {
		w.step(what)
	}
}

// flush writes the pending runs as a segment, and the manifest that lists it.
func (w *writer) flush() error {
	if len(w.next.entries) == 0 {
		return nil
	}
	s, index, err := w.next.segment(len(w.manifest.Segments) + 1)
	if err != nil {
		return err
	}
	w.at("segment")
	if err := w.next.put(w.Dir, s.Name+segmentEnd); err != nil {
		return err
	}
	w.at("index")
	if err := putFile(w.Dir, s.Name+indexEnd, index); err != nil {
		return err
	}
	if err := s.noteSums(w.Dir); err != nil {
		return err
	}
	w.at("manifest")
	changed := w.manifest
	changed.Segments = append(changed.Segments[:len(changed.Segments):len(changed.Segments)], s)
	if err := changed.put(w.Dir); err != nil {
		return err
	}
	w.at("written")
	w.manifest = changed
	w.report.Archived += len(w.next.entries)
	w.next = pending{}
	return nil
}
