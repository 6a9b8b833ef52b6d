package aof

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
	"github.com/flowfabric/flowfabric-go/internal/dirlock"
	"github.com/flowfabric/flowfabric-go/internal/durabledir"
)

// Open locks the data directory, loads the last snapshot and the logs since into the data of db, and opens the last log
// for appending. It fails with ErrLocked when the directory is in use, and with a *CorruptError when it is damaged
// other than by a torn end of the log. Cancelling ctx stops a load in progress.
func Open(ctx context.Context, o Options, db Database) (log *Log, err error) {
	d := disk{o.Dir, o.Fault}
	above, err := durabledir.Make(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("embedded: data directory: %w", err)
	}
	lock, err := dirlock.Lock(o.Dir)
	if errors.Is(err, dirlock.ErrLocked) {
		err = fmt.Errorf("%w: %s", ErrLocked, o.Dir)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	l := &Log{disk: d, db: db, policy: o.Policy, limit: o.Limit, logger: o.Logger, lock: lock,
		retry: retryPace{first: 100 * time.Millisecond, longest: 5 * time.Second}}
	if o.RetryPause > 0 {
		l.retry.first, l.retry.longest = o.RetryPause, o.RetryPause
	}
	if err := l.removeUnnamed(); err != nil {
		return nil, fmt.Errorf("embedded: data directory: %w", err)
	}
	known, err := l.readManifest()
	if err != nil {
		return nil, err
	}
	ld := &loader{d: &l.disk, data: db.Data(), known: known, upTo: -1}
	if err := ld.load(ctx); err != nil {
		return nil, err
	}
	if known == nil {
		if err := l.keepDirectory(above); err != nil {
			return nil, fmt.Errorf("embedded: data directory: %w", err)
		}
	}
	if err := l.take(ld); err != nil {
		return nil, err
	}
	l.start()
	return l, nil
}

// take continues where a loader has ended.
func (l *Log) take(ld *loader) (err error) {
	l.gen, l.seq, l.size = ld.gen, ld.seq, ld.size
	l.snapshotSize.Store(ld.snapshotSize)
	var f *diskFile
	if ld.size == 0 {
		if f, err = l.createLog(ld.gen, ld.seq); err != nil {
			return fmt.Errorf("embedded: create log: %w", err)
		}
		l.size = record.FileHeaderSize
	} else if f, err = l.reopen(ld); err != nil {
		return err
	}
	l.file = f
	if err := l.keepManifest(ld); err != nil {
		_ = f.Close()
		return fmt.Errorf("embedded: write manifest: %w", err)
	}
	// Files from before the snapshot are leftovers of an interrupted clean-up.
	l.removeBefore(ld.base)
	return nil
}

// keepManifest records the present content of the directory. If a full disk does not accept the manifest, the directory
// still opens if the existing manifest remains true.
func (l *Log) keepManifest(ld *loader) error {
	l.kept = manifest{l.gen, l.seq, l.policy}
	if ld.known == nil {
		_, err := l.writeManifest(l.kept)
		return err
	}
	if l.policy == Never {
		l.kept.seq = ld.known.seq
	}
	if *ld.known == l.kept {
		return nil
	}
	_, err := l.writeManifest(l.kept)
	if err != nil && ld.known.gen == l.gen && ld.known.policy == l.policy {
		l.logger.Warn("embedded: the log could not update its manifest; no data is lost",
			"event", eventManifestFailed, "error", err)
		l.kept, err = *ld.known, nil
	}
	return err
}

// reopen opens the last log for appending, without its torn end. This makes the data read from it durable, since
// clients may see it from now on.
func (l *Log) reopen(ld *loader) (*diskFile, error) {
	f, err := l.open(l.logPath(ld.gen), os.O_WRONLY)
	if err != nil {
		return nil, fmt.Errorf("embedded: open log: %w", err)
	}
	if ld.torn > 0 {
		l.logger.Warn("embedded: the log dropped its torn end",
			"event", eventTornEndDropped, "path", f.Name(), "offset", ld.size, "bytes", ld.torn, "reason",
			ld.tornReason)
		err = f.Truncate(ld.size)
	}
	if err == nil && (ld.torn > 0 || ld.known == nil || l.policy != Never) {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("embedded: open log: %w", err)
	}
	return f, nil
}

// removeUnnamed removes files that were being written when the process before ended.
func (d *disk) removeUnnamed() error {
	entries, err := os.ReadDir(d.dir)
	for _, ent := range entries {
		if strings.HasSuffix(ent.Name(), tmpSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(d.dir, ent.Name())))
		}
	}
	return err
}

// files lists the generations present.
func (d *disk) files() (snapshots, logs []uint64, err error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("embedded: data directory: %w", err)
	}
	for _, ent := range entries {
		for prefix, list := range map[string]*[]uint64{"snapshot-": &snapshots, "log-": &logs} {
			if text, ok := strings.CutPrefix(ent.Name(), prefix); ok {
				if gen, err := strconv.ParseUint(text, 10, 64); err == nil {
					*list = append(*list, gen)
				}
			}
		}
	}
	slices.Sort(snapshots)
	slices.Sort(logs)
	return snapshots, logs, nil
}

// removeBefore deletes files of earlier generations. Files that cannot be deleted now are deleted by a later call.
func (d *disk) removeBefore(gen uint64) {
	snapshots, logs, err := d.files()
	if err != nil {
		return
	}
	for _, g := range snapshots {
		if g < gen {
			_ = os.Remove(d.snapshotPath(g))
		}
	}
	for _, g := range logs {
		if g < gen {
			_ = os.Remove(d.logPath(g))
		}
	}
}

// loader reads the files of a data directory into empty data. It changes nothing on disk.
type loader struct {
	d     *disk
	data  Data
	known *manifest // nil where there is none
	upTo  int64     // how much of log known.gen counts; negative: all that is whole

	base         uint64 // generation of the snapshot, 0 for none
	snapshotSize int64
	snapshotKeys int
	gen          uint64 // of the last log
	size         int64  // of the part that counts in the last log; 0 when there is none yet
	seq          uint64 // of the next record
	torn         int64  // bytes after size
	tornReason   string
}

func (ld *loader) load(ctx context.Context) error {
	snapshots, logs, err := ld.d.files()
	if err != nil {
		return err
	}
	ld.seq = 1
	if n := len(snapshots); n > 0 {
		ld.base = snapshots[n-1]
		if err := ld.loadSnapshot(ctx); err != nil {
			return err
		}
	}
	if err := ld.loadLogs(ctx, logs); err != nil {
		return err
	}
	if ld.known != nil && ld.seq < ld.known.seq {
		return &CorruptError{Path: ld.d.logPath(ld.gen), Offset: ld.size,
			Reason: fmt.Sprintf("it ends with record %d, but record %d was kept", int64(ld.seq)-1, ld.known.seq-1)}
	}
	return nil
}

// loadLogs applies the logs that follow the snapshot, all of which have to be there.
func (ld *loader) loadLogs(ctx context.Context, logs []uint64) error {
	logs = slices.DeleteFunc(logs, func(gen uint64) bool { return gen < ld.base })
	first, last := max(ld.base, 1), uint64(0)
	if n := len(logs); n > 0 {
		last = logs[n-1]
	}
	if ld.known != nil {
		last = max(ld.known.gen, ld.base)
		if err := ld.checkUnused(logs, last); err != nil {
			return err
		}
	}
	if ld.known == nil && ld.base == 0 && len(logs) == 0 || ld.known != nil && ld.base > ld.known.gen {
		ld.gen = first // the directory is new, or a snapshot was written to begin again and its log was not
		return nil
	}
	for gen := first; gen <= max(first, last); gen++ {
		if !slices.Contains(logs, gen) {
			return &CorruptError{Path: ld.d.logPath(gen), Reason: "file is missing"}
		}
		if err := ld.loadLog(ctx, gen, gen == last); err != nil {
			return err
		}
	}
	return nil
}

// checkUnused returns an error for records in logs after the last one: such logs were created and never taken into use.
func (ld *loader) checkUnused(logs []uint64, last uint64) error {
	for _, gen := range logs {
		if gen <= last {
			continue
		}
		info, err := os.Stat(ld.d.logPath(gen))
		if err != nil {
			return fmt.Errorf("embedded: read log: %w", err)
		}
		if info.Size() > record.FileHeaderSize {
			return &CorruptError{
				Path:   ld.d.manifestPath(),
				Reason: fmt.Sprintf("it names log %d as the last, but log %d has records", last, gen),
			}
		}
	}
	return nil
}

// loadLog applies one log. The last one may have a torn end.
func (ld *loader) loadLog(ctx context.Context, gen uint64, last bool) error {
	path := ld.d.logPath(gen)
	data, err := ld.d.read(path)
	if err != nil {
		return fmt.Errorf("embedded: read log: %w", err)
	}
	if last && ld.upTo >= 0 {
		data = data[:min(int64(len(data)), ld.upTo)]
	}
	ld.gen = gen
	first, reason := record.ReadFileHeader(data, gen)
	if reason == "" && first != ld.seq {
		reason = fmt.Sprintf("begins with record %d instead of %d", first, ld.seq)
	}
	if reason != "" {
		return &CorruptError{Path: path, Reason: reason}
	}
	good, reason, err := ld.applyRecords(ctx, path, data, &ld.seq)
	if err != nil {
		return err
	}
	if reason != "" && last {
		reason = ld.damage(data, good, reason)
	}
	if reason != "" {
		return &CorruptError{Path: path, Offset: good, Reason: reason}
	}
	ld.size = good
	return nil
}

// damage decides whether the bytes from good on, where a record is not intact, are the torn end of a log, which was
// never acknowledged and is recorded, or damage, for which it returns the reason. A power cut may leave later records
// intact, since a disk writes in any order: those that were written when the bad one was not durable yet.
func (ld *loader) damage(data []byte, good int64, reason string) string {
	tail, later := data[good:], false
	for payload := range record.IntactAfter(tail) {
		if durable, known := durableAt(payload); !known || durable > good {
			return reason
		}
		later = true
	}
	if !later && ld.known != nil && ld.known.policy == Always && len(tail) > maxUnsynced+record.ClaimedSize(tail) {
		return fmt.Sprintf("%s, and the %d bytes from here on are more than a crash leaves unacknowledged; "+
			"cut the file at this offset to continue without them", reason, len(tail))
	}
	ld.torn, ld.tornReason = int64(len(tail)), reason
	return ""
}

// durableAt returns how much of its file was durable when a record was written, if the record has that.
func durableAt(payload []byte) (size int64, known bool) {
	ok, err := record.ReadCommands(payload, func(words []string) error {
		size, known = record.Durable(words)
		return nil
	})
	return size, known && ok && err == nil
}

// loadSnapshot reads a snapshot, which has to be complete: it was renamed into place after it was synced.
func (ld *loader) loadSnapshot(ctx context.Context) error {
	path := ld.d.snapshotPath(ld.base)
	data, err := ld.d.read(path)
	if err != nil {
		return fmt.Errorf("embedded: read snapshot: %w", err)
	}
	next, reason := record.ReadFileHeader(data, ld.base)
	if reason != "" {
		return &CorruptError{Path: path, Reason: reason}
	}
	seq := uint64(1)
	ld.snapshotKeys = -1
	good, reason, err := ld.applyRecords(ctx, path, data, &seq)
	if err != nil {
		return err
	}
	if reason == "" && ld.snapshotKeys != ld.data.Len() {
		reason = "end of the snapshot is missing"
	}
	if reason != "" {
		return &CorruptError{Path: path, Offset: good, Reason: reason}
	}
	ld.seq = next
	ld.snapshotSize = int64(len(data))
	return nil
}

// applyRecords runs the records after the file header. It returns the offset of the first bad one and its fault.
func (ld *loader) applyRecords(
	ctx context.Context, path string, data []byte, seq *uint64,
) (good int64, reason string, err error) {
	pos := record.FileHeaderSize
	for pos < len(data) {
		n, got, reason := record.Open(data[pos:])
		if reason == "" && got != *seq {
			reason = fmt.Sprintf("record %d is at the position of record %d", got, *seq)
			return 0, "", &CorruptError{Path: path, Offset: int64(pos), Reason: reason}
		}
		if reason != "" {
			return int64(pos), reason, nil
		}
		if *seq%1024 == 0 && ctx.Err() != nil {
			return 0, "", ctx.Err()
		}
		ok, err := record.ReadCommands(data[pos+record.HeaderSize:pos+n], ld.apply)
		if err == nil && !ok {
			err = errors.New("record is malformed")
		}
		if err != nil {
			return 0, "", &CorruptError{Path: path, Offset: int64(pos), Reason: err.Error()}
		}
		*seq++
		pos += n
	}
	return int64(pos), "", nil
}

// apply runs one command of a file.
func (ld *loader) apply(words []string) error {
	if words[0] == snapshotEnd && len(words) == 2 {
		n, err := strconv.Atoi(words[1])
		ld.snapshotKeys = n
		return err
	}
	if _, ok := record.Durable(words); ok {
		return nil
	}
	return ld.data.Apply(words)
}
