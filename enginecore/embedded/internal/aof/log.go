package aof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// Policy selects when a written record becomes durable.
type Policy int

const (
	// Always syncs before Wait returns. Calls of many connections share a sync.
	Always Policy = iota
	// EverySecond syncs once a second.
	EverySecond
	// Never leaves syncing to the operating system.
	Never
)

// Data is the content that a log keeps: it can be written to a snapshot and rebuilt from a snapshot and the records
// since.
type Data interface {
	// Apply runs one command of a snapshot or record.
	Apply(words []string) error
	// Dump writes commands that rebuild the data.
	Dump(w *record.Writer)
	// Len returns the number of keys.
	Len() int
}

// Database is the owner of the data of a log. Its lock admits one unit of commands at a time.
type Database interface {
	sync.Locker
	// Data returns the present data, which is empty when the log is opened.
	Data() Data
	// NewData returns empty data, into which the files are read after a failed write.
	NewData() Data
	// Resume is called after a failure, with the database locked, when units can be appended again. data takes the
	// place of the present data; it is nil if that stays. rewritten reports that a snapshot of the data was written.
	Resume(data Data, rewritten bool)
}

// Options configures Open.
type Options struct {
	// Dir is the data directory. It is created when missing.
	Dir    string
	Policy Policy
	// Limit is the size in bytes from which the log is replaced by a snapshot, once it also exceeds twice the last
	// snapshot.
	Limit  int64
	Logger *slog.Logger
	// Fault is for tests: it is called before each operation on a file, and its error replaces the operation.
	Fault func(op Op, name string) error
	// RetryPause is for tests: the pause between two tries to write to a failed log.
	RetryPause time.Duration
}

// Log keeps data in a directory: every unit that changed something is one record. Appending happens under the lock of
// the database, syncing does not, so that units of other connections run during a sync and share the next one.
type Log struct {
	disk
	db     Database
	policy Policy
	limit  int64
	logger *slog.Logger
	lock   io.Closer

	// Guarded by the lock of the database.
	gen     uint64
	seq     uint64 // of the next record
	end     int64  // bytes appended since Open, over all files
	size    int64  // bytes in the current file
	retryAt int64  // size at which a failed rotation is tried again
	kept    manifest

	snapshotSize atomic.Int64 // bytes in the last snapshot
	rewriting    atomic.Bool  // a snapshot is being synced

	// syncMu guards file against being replaced during a sync. It is taken inside the lock of the database or alone.
	syncMu sync.Mutex
	file   logFile

	written atomic.Int64 // end, for the syncer
	durable atomic.Int64
	// failure is why nothing can be written, or nil.
	failure atomic.Pointer[Failure]
	// unsyncable reports that a sync of the current file has failed: its losses are unknown, also after a later
	// successful sync.
	unsyncable atomic.Bool
	// superseded reports that a snapshot may have replaced the current log, so that nothing may be appended to it. Only
	// restore uses it.
	superseded bool

	mu     sync.Mutex
	change chan struct{} // closed when durable or unsyncable changes

	retry retryPace
	kick  chan struct{}
	stop  context.CancelFunc
	work  sync.WaitGroup
}

// maxUnsynced bounds the unsynced bytes under Always while calls of other connections continue. So a torn end that
// exceeds it by more than one record is damage.
const maxUnsynced = 1 << 20

// start begins the work in the background.
func (l *Log) start() {
	l.change = make(chan struct{})
	l.kick = make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.work.Go(func() { l.keep(ctx) })
}

// keep syncs written data and restores a failed log, until the log is closed.
func (l *Log) keep(ctx context.Context) {
	var tick <-chan time.Time
	if l.policy == EverySecond {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		tick = t.C
	}
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
		case <-tick:
		case <-again:
			again = nil
			if err := l.restore(ctx); err != nil {
				l.restoreFailed(err)
			}
		}
		if l.policy != Never {
			l.sync()
		}
		if r := l.failure.Load(); r != nil && again == nil {
			again = time.After(l.retry.next(r.since))
		}
	}
}

// wake wakes keep.
func (l *Log) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// sync makes everything written so far durable, once for all waiting calls.
func (l *Log) sync() {
	if l.unsyncable.Load() || l.durable.Load() == l.written.Load() {
		return
	}
	l.syncMu.Lock()
	if l.unsyncable.Load() {
		l.syncMu.Unlock()
		return
	}
	target := l.written.Load()
	err := l.file.Sync()
	if err != nil {
		l.unsyncable.Store(true) // before anybody else syncs the file
	}
	l.syncMu.Unlock()
	if err != nil {
		l.syncFailed(err)
		return
	}
	l.advance(target)
}

func (l *Log) advance(to int64) {
	l.mu.Lock()
	if to > l.durable.Load() {
		l.durable.Store(to)
	}
	l.changes()
	l.mu.Unlock()
}

// changes wakes all waiters for progress. mu is held.
func (l *Log) changes() {
	close(l.change)
	l.change = make(chan struct{})
}

// Append writes one unit, a record that record.Start has begun. The database is locked. After an error, nothing of the
// record is in the log, and Failure returns the reason.
func (l *Log) Append(unit []byte) error {
	if l.policy == Always && l.end-l.durable.Load() > maxUnsynced {
		l.sync()
	}
	if behind := l.end - l.durable.Load(); behind > 0 && l.policy != Never {
		unit = record.AppendDurable(unit, l.size-behind)
	}
	record.Seal(unit, l.seq)
	if _, err := l.file.WriteAt(unit, l.size); err != nil {
		l.writeFailed(err, len(unit))
		return err
	}
	l.seq++
	l.size += int64(len(unit))
	l.end += int64(len(unit))
	l.written.Store(l.end)
	if l.policy == Always {
		l.wake()
	}
	return nil
}

// HoldsBack reports whether a reply that depends on pos has to wait.
func (l *Log) HoldsBack(pos int64) bool {
	return l.policy == Always && pos > l.durable.Load()
}

// Progress returns how much is durable, and whether it is unknown if more will be.
func (l *Log) Progress() (durable int64, unknown bool) {
	unknown = l.unsyncable.Load() // before durable, which may still have grown first
	return l.durable.Load(), unknown
}

// Changed returns a channel that is closed at the next change of progress. Get it before looking.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.change
}

// Wait returns when everything up to pos is durable under the policy.
func (l *Log) Wait(ctx context.Context, pos int64) error {
	for {
		ch := l.Changed()
		durable, unknown := l.Progress()
		if l.policy != Always || pos <= durable {
			return nil
		}
		if unknown {
			err := errors.New("log failed")
			if r := l.failure.Load(); r != nil {
				err = r
			}
			return fmt.Errorf("embedded: it is not known whether the call is kept: %w", err)
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Policy returns when the log makes written data durable.
func (l *Log) Policy() Policy { return l.policy }

// End returns the position after the last record. The database is locked.
func (l *Log) End() int64 { return l.end }

// Failure returns why nothing can be written to the log, and nil while it can.
func (l *Log) Failure() *Failure { return l.failure.Load() }

// Close syncs and releases everything. Nothing may be appended after it.
func (l *Log) Close() error {
	l.stop()
	l.work.Wait()
	var errs []error
	if l.policy != Never {
		l.sync()
	}
	if r := l.failure.Load(); r != nil {
		errs = append(errs, fmt.Errorf("embedded: %w", r))
	} else if now := (manifest{l.gen, l.seq, l.policy}); l.policy != Never && now != l.kept {
		if _, err := l.writeManifest(now); err != nil {
			l.logger.Warn("embedded: the log could not update its manifest; no data is lost",
				"event", eventManifestFailed, "error", err)
		}
	}
	if err := l.file.Close(); err != nil {
		errs = append(errs, fmt.Errorf("embedded: close log: %w", err))
	}
	l.advance(l.durable.Load()) // wakes the calls that still wait
	_ = l.lock.Close()
	return errors.Join(errs...)
}
