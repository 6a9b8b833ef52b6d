package aof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// Failure is why the log cannot be written. Nothing that is not in the log may be seen, so the database has to refuse
// reads as well as writes until the log is restored.
type Failure struct {
	doing string // the operation on the log that failed
	path  string
	cause error
	// later is why the last restore failed, or nil.
	later error
	// ahead reports that memory has effects that the log lacks.
	ahead bool
	need  int // bytes that could not be written
	since time.Time
}

// Error describes the failure, its effect and the next step.
func (r *Failure) Error() string {
	text := fmt.Sprintf("the log cannot be %s: %s: %v; calls are refused until the data is on disk again, which the engine retries by itself; no data is lost", r.doing, r.path, r.cause)
	if r.later != nil && r.later.Error() != r.cause.Error() {
		text += fmt.Sprintf(" (the last try: %v)", r.later)
	}
	return text
}

// Unwrap returns the error of the operating system.
func (r *Failure) Unwrap() error { return r.cause }

// Stable names of log records.
const (
	eventStorageFailed   = "storage.failed"
	eventStorageRestored = "storage.restored"
	eventTornEndDropped  = "storage.torn_end_dropped"
	eventSnapshotFailed  = "storage.snapshot_failed"
	eventManifestFailed  = "storage.manifest_failed"
)

// writeFailed notes that a record could not be appended. The database is locked.
func (l *Log) writeFailed(cause error, size int) {
	// Half a record would be taken for a torn end. Where it cannot be removed, restore begins another file.
	_ = l.file.Truncate(l.size)
	l.fail(&Failure{doing: "written", path: l.file.Name(), cause: cause, ahead: true, need: size})
}

// syncFailed notes that nothing more of the current file can become durable.
func (l *Log) syncFailed(cause error) {
	l.unsyncable.Store(true)
	l.fail(&Failure{doing: "synced", path: l.file.Name(), cause: cause})
	l.mu.Lock()
	l.changes()
	l.mu.Unlock()
}

// fail begins or widens a failure.
func (l *Log) fail(r *Failure) {
	for {
		old := l.failure.Load()
		next := *r
		next.since = time.Now()
		if old != nil {
			next = *old
			next.ahead = next.ahead || r.ahead
			next.need = max(next.need, r.need)
		}
		if !l.failure.CompareAndSwap(old, &next) {
			continue
		}
		if old == nil {
			l.logger.Error("embedded: the log cannot be written; the engine refuses calls and retries",
				"event", eventStorageFailed, "path", r.path, "error", r.cause)
		}
		l.wake()
		return
	}
}

// restoreFailed notes why a restore failed.
func (l *Log) restoreFailed(err error) {
	for {
		old := l.failure.Load()
		if old == nil {
			return
		}
		next := *old
		next.later = err
		if l.failure.CompareAndSwap(old, &next) {
			return
		}
	}
}

// retryPace determines when a failed log is retried. Failures in quick succession, as on a nearly full disk, slow it
// down, so that log records stay few.
type retryPace struct {
	first, longest time.Duration
	pause          time.Duration
	since          time.Time // of the last failure
}

// steadyTime is how long a log must have worked for its next failure to count as the first.
const steadyTime = 10 * time.Second

// next returns the pause before the next try after a failure at since.
func (p *retryPace) next(since time.Time) time.Duration {
	if since.Sub(p.since) > steadyTime {
		p.pause = 0
	}
	p.since = since
	p.pause = min(max(2*p.pause, p.first), p.longest)
	return p.pause
}

var errSnapshotRuns = errors.New("a snapshot is being written")

// restore makes the log writable again: it tests whether the disk accepts data, undoes the changes in memory that the
// log lacks, and continues after the last record, or in a new file if the old one cannot be trusted. Calls are refused
// until it returns, so the data does not change.
func (l *Log) restore(ctx context.Context) error {
	l.db.Lock() // the unit that ran when the log failed has ended now
	r := *l.failure.Load()
	l.db.Unlock()
	if l.rewriting.Load() {
		return errSnapshotRuns
	}
	if err := l.tryRoom(r.need); err != nil {
		return err
	}
	var data Data // nil for the present one
	if r.ahead {
		var err error
		if data, err = l.reread(ctx); err != nil {
			return err
		}
	}
	var next *newLog
	if l.superseded || l.unsyncable.Load() || l.repair() != nil {
		var err error
		kept := data
		if kept == nil {
			kept = l.db.Data()
		}
		if next, err = l.beginAgain(kept); err != nil {
			return err
		}
	}
	l.resume(data, next)
	return nil
}

// repair makes the current file one to append to.
func (l *Log) repair() error {
	if err := l.file.Truncate(l.size); err != nil {
		return err
	}
	err := l.file.Sync()
	if err != nil {
		l.syncFailed(err)
	}
	return err
}

// reread builds the data anew from the files, up to the last record that was written.
func (l *Log) reread(ctx context.Context) (Data, error) {
	data := l.db.NewData()
	ld := &loader{d: &l.disk, data: data, known: &manifest{gen: l.gen, seq: l.seq}, upTo: l.size}
	if err := ld.load(ctx); err != nil {
		return nil, fmt.Errorf("the stored data cannot be read again: %w", err)
	}
	if ld.seq != l.seq {
		return nil, fmt.Errorf("the stored data cannot be read again: %w",
			&CorruptError{Path: l.file.Name(), Offset: l.size,
				Reason: fmt.Sprintf("it ends with record %d instead of %d", ld.seq-1, l.seq-1)})
	}
	return data, nil
}

// newLog is a log that follows a snapshot.
type newLog struct {
	file *diskFile
	kept manifest
	size int64 // of the snapshot
}

// beginAgain writes a snapshot of data and starts a new log that follows it. A directory in which it was interrupted
// opens with the same data.
func (l *Log) beginAgain(data Data) (*newLog, error) {
	next := &newLog{kept: manifest{l.gen + 1, l.seq, l.policy}}
	tmp := l.snapshotPath(next.kept.gen) + tmpSuffix
	f, err := l.writeSnapshot(tmp, next.kept.gen, data)
	if err != nil {
		return nil, err
	}
	l.superseded = true
	if next.size, err = l.publishSnapshot(f, tmp, next.kept.gen); err != nil {
		return nil, err
	}
	if next.file, err = l.createLog(next.kept.gen, l.seq); err != nil {
		return nil, err
	}
	if _, err := l.writeManifest(next.kept); err != nil {
		_ = next.file.Close()
		return nil, err
	}
	return next, nil
}

// resume ends a failure: data takes the place of the present data unless it is nil, and records go to next, or after
// the previous records of the present log when it is nil.
func (l *Log) resume(data Data, next *newLog) {
	l.db.Lock()
	defer l.db.Unlock()
	if next != nil {
		l.syncMu.Lock()
		old := l.file
		l.file = next.file
		l.syncMu.Unlock()
		_ = old.Close() // an error does not matter: the file is no longer read
		l.gen, l.kept = next.kept.gen, next.kept
		l.size, l.retryAt = record.FileHeaderSize, 0
		l.snapshotSize.Store(next.size)
		l.removeBefore(l.gen)
		l.superseded = false
		l.unsyncable.Store(false)
		l.advance(l.end)
	}
	l.db.Resume(data, next != nil)
	l.logger.Info("embedded: the log can be written again; the engine serves calls", "event", eventStorageRestored,
		"path", l.file.Name())
	l.failure.Store(nil)
}
