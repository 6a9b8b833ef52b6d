package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// effectLog makes a data directory outlive the process: every unit that changed something is one record. Appending
// happens under the gate, syncing does not, so that units of other connections run meanwhile and share the next sync.
type effectLog struct {
	dir    string
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

	snapshotSize atomic.Int64 // bytes in the last snapshot
	rewriting    atomic.Bool  // a snapshot is being synced

	// syncMu guards file against being replaced during a sync. It is taken inside the gate or alone.
	syncMu sync.Mutex
	file   logFile

	written atomic.Int64 // end, for the syncer
	durable atomic.Int64
	broken  atomic.Pointer[error]

	mu     sync.Mutex
	change chan struct{} // closed when durable or broken changes

	kick chan struct{}
	stop chan struct{}
	work sync.WaitGroup
}

// logFile is what the log needs of an *os.File; tests put failing ones in its place.
type logFile interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
	Name() string
}

func (l *effectLog) start() {
	l.change = make(chan struct{})
	l.kick = make(chan struct{}, 1)
	l.stop = make(chan struct{})
	if l.policy == FsyncNever {
		return
	}
	l.work.Add(1)
	go func() {
		defer l.work.Done()
		l.syncer()
	}()
}

func (l *effectLog) syncer() {
	var tick <-chan time.Time
	if l.policy == FsyncEverySecond {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-l.stop:
			return
		case <-l.kick:
		case <-tick:
		}
		l.sync()
	}
}

// sync makes everything written so far durable, once for all who wait for it.
func (l *effectLog) sync() {
	if l.broken.Load() != nil || l.durable.Load() == l.written.Load() {
		return
	}
	l.syncMu.Lock()
	target := l.written.Load()
	err := l.file.Sync()
	l.syncMu.Unlock()
	if err != nil {
		// What a failed sync has lost cannot be known, so nothing may be acknowledged any more.
		l.fail(fmt.Errorf("log %s: %w", l.file.Name(), err))
		return
	}
	l.advance(target)
}

func (l *effectLog) advance(to int64) {
	l.mu.Lock()
	if to > l.durable.Load() {
		l.durable.Store(to)
	}
	close(l.change)
	l.change = make(chan struct{})
	l.mu.Unlock()
}

func (l *effectLog) fail(err error) {
	l.mu.Lock()
	if l.broken.CompareAndSwap(nil, &err) {
		l.logger.Error("embedded: log failed; writes are refused until the engine is opened again", "error", err)
	}
	close(l.change)
	l.change = make(chan struct{})
	l.mu.Unlock()
}

// failure returns why the log takes no more records.
func (l *effectLog) failure() error {
	if p := l.broken.Load(); p != nil {
		return *p
	}
	return nil
}

// append writes one record. The gate is held.
func (l *effectLog) append(record []byte) error {
	if err := l.failure(); err != nil {
		return err
	}
	sealRecord(record, l.seq)
	if _, err := l.file.Write(record); err != nil {
		// Half a record would look like damage once more follows it; nothing will, but the next Open is simpler without.
		_ = l.file.Truncate(l.size)
		err = fmt.Errorf("log %s: %w", l.file.Name(), err)
		l.fail(err)
		return err
	}
	l.seq++
	l.size += int64(len(record))
	l.end += int64(len(record))
	l.written.Store(l.end)
	if l.policy == FsyncAlways {
		select {
		case l.kick <- struct{}{}:
		default:
		}
	}
	return nil
}

// holdsBack reports whether a reply that depends on pos has to wait.
func (l *effectLog) holdsBack(pos int64) bool {
	return l.policy == FsyncAlways && pos > l.durable.Load()
}

// progress returns how much is durable, and why that will not grow any more.
func (l *effectLog) progress() (durable int64, failed error) {
	failed = l.failure() // before durable, which may still have grown first
	return l.durable.Load(), failed
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
		if l.policy != FsyncAlways || pos <= l.durable.Load() {
			return nil
		}
		if err := l.failure(); err != nil {
			return fmt.Errorf("embedded: %w", err)
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
	close(l.stop)
	l.work.Wait()
	var errs []error
	if l.policy != FsyncNever {
		l.sync()
	}
	if err := l.failure(); err != nil {
		errs = append(errs, fmt.Errorf("embedded: %w", err))
	}
	if err := l.file.Close(); err != nil {
		errs = append(errs, fmt.Errorf("embedded: close log: %w", err))
	}
	l.advance(l.durable.Load()) // wakes whoever still waits
	_ = l.lock.Close()
	return errors.Join(errs...)
}

func (l *effectLog) logPath(gen uint64) string {
	return filepath.Join(l.dir, fmt.Sprintf("log-%012d", gen))
}

func (l *effectLog) snapshotPath(gen uint64) string {
	return filepath.Join(l.dir, fmt.Sprintf("snapshot-%012d", gen))
}

// createLog starts an empty log file that survives a crash from here on.
func (l *effectLog) createLog(gen uint64) (*os.File, error) {
	f, err := os.OpenFile(l.logPath(gen), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(makeHeader(gen, l.seq)); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(l.dir)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// syncDir makes names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !dirSyncUnsupported {
		return err
	}
	return nil
}
