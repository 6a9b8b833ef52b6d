package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// effectLog makes a data directory outlive the process: every unit that changed something is one record. Appending
// happens under the gate, syncing does not, so that units of other connections run meanwhile and share the next sync.
type effectLog struct {
	disk
	policy Fsync
	limit  int64
	logger *slog.Logger
	lock   io.Closer

	// Guarded by the gate.
	gen     uint64
	seq     uint64 // of the next record
	end     int64  // bytes appended since Open, over all files
	size    int64  // bytes in the current file
	retryAt int64  // size at which a failed rotation is tried again
	kept    manifest

	snapshotSize atomic.Int64 // bytes in the last snapshot
	rewriting    atomic.Bool  // a snapshot is being synced

	// syncMu guards file against being replaced during a sync. It is taken inside the gate or alone.
	syncMu sync.Mutex
	file   logFile

	written atomic.Int64 // end, for the syncer
	durable atomic.Int64
	// refusal is why calls are refused, or nil.
	refusal atomic.Pointer[refusal]
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

// maxUnsynced bounds the unsynced bytes under FsyncAlways while calls of other connections continue. So a torn end that
// exceeds it by more than one record is damage.
const maxUnsynced = 1 << 20

// start begins the work in the background. restore makes the log writable again after a failure.
func (l *effectLog) start(restore func(context.Context) error) {
	l.change = make(chan struct{})
	l.kick = make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.work.Go(func() { l.keep(ctx, restore) })
}

// keep syncs written data and restores a failed log, until the log is closed.
func (l *effectLog) keep(ctx context.Context, restore func(context.Context) error) {
	var tick <-chan time.Time
	if l.policy == FsyncEverySecond {
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
			if err := restore(ctx); err != nil {
				l.stillRefusing(err)
			}
		}
		if l.policy != FsyncNever {
			l.sync()
		}
		if r := l.refusal.Load(); r != nil && again == nil {
			again = time.After(l.retry.next(r.since))
		}
	}
}

// wake wakes keep.
func (l *effectLog) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// sync makes everything written so far durable, once for all waiting calls.
func (l *effectLog) sync() {
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

func (l *effectLog) advance(to int64) {
	l.mu.Lock()
	if to > l.durable.Load() {
		l.durable.Store(to)
	}
	l.changes()
	l.mu.Unlock()
}

// changes wakes all waiters for progress. mu is held.
func (l *effectLog) changes() {
	close(l.change)
	l.change = make(chan struct{})
}

// append writes one record. The gate is held. After an error, nothing of the record is in the log.
func (l *effectLog) append(record []byte) error {
	if l.policy == FsyncAlways && l.end-l.durable.Load() > maxUnsynced {
		l.sync()
	}
	sealRecord(record, l.seq)
	if _, err := l.file.WriteAt(record, l.size); err != nil {
		l.writeFailed(err, len(record))
		return err
	}
	l.seq++
	l.size += int64(len(record))
	l.end += int64(len(record))
	l.written.Store(l.end)
	if l.policy == FsyncAlways {
		l.wake()
	}
	return nil
}

// holdsBack reports whether a reply that depends on pos has to wait.
func (l *effectLog) holdsBack(pos int64) bool {
	return l.policy == FsyncAlways && pos > l.durable.Load()
}

// progress returns how much is durable, and whether it is unknown if more will be.
func (l *effectLog) progress() (durable int64, unknown bool) {
	unknown = l.unsyncable.Load() // before durable, which may still have grown first
	return l.durable.Load(), unknown
}

// changed returns a channel that is closed at the next change of progress. Get it before looking.
func (l *effectLog) changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.change
}

// wait returns when everything up to pos is durable under the policy.
func (l *effectLog) wait(ctx context.Context, pos int64) error {
	for {
		ch := l.changed()
		durable, unknown := l.progress()
		if l.policy != FsyncAlways || pos <= durable {
			return nil
		}
		if unknown {
			err := errors.New("log failed")
			if r := l.refusal.Load(); r != nil {
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

// close syncs and releases everything. The engine is shut and has no connections left.
func (l *effectLog) close() error {
	l.stop()
	l.work.Wait()
	var errs []error
	if l.policy != FsyncNever {
		l.sync()
	}
	if r := l.refusal.Load(); r != nil {
		errs = append(errs, fmt.Errorf("embedded: %w", r))
	} else if now := (manifest{l.gen, l.seq, l.policy}); l.policy != FsyncNever && now != l.kept {
		if _, err := l.writeManifest(now); err != nil {
			l.logger.Warn("embedded: the manifest was not brought up to date, which loses nothing", "error", err)
		}
	}
	if err := l.file.Close(); err != nil {
		errs = append(errs, fmt.Errorf("embedded: close log: %w", err))
	}
	l.advance(l.durable.Load()) // wakes whoever still waits
	_ = l.lock.Close()
	return errors.Join(errs...)
}
