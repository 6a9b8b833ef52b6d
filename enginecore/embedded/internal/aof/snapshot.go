package aof

import (
	"bufio"
	"errors"
	"os"
	"strconv"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// snapshotEnd is the last command of a snapshot. It has the number of keys.
const snapshotEnd = "\x00END"

// Full reports whether the log is worth replacing. The database is locked.
func (l *Log) Full() bool {
	return l.size > l.limit && l.size > 2*l.snapshotSize.Load() && l.size > l.retryAt && !l.rewriting.Load() &&
		l.failure.Load() == nil
}

// Rewrite starts a new log and writes down the state before it. The state is written while the database is locked,
// which makes calls wait as long as the system takes to accept it; syncing and cleaning up happen in the background. A
// snapshot that fails costs disk space only: the old files stay.
func (l *Log) Rewrite() {
	if err := l.rotate(); err != nil {
		l.retryAt = 2 * l.size
		l.logger.Warn("embedded: the log could not begin a new file and continues in the old one",
			"event", eventSnapshotFailed, "error", err)
		return
	}
	gen := l.gen
	tmp := l.snapshotPath(gen) + tmpSuffix
	f, err := l.writeSnapshot(tmp, gen, l.db.Data())
	if err != nil {
		l.snapshotFailed(err)
		return
	}
	l.rewriting.Store(true)
	l.work.Go(func() {
		defer l.rewriting.Store(false)
		size, err := l.publishSnapshot(f, tmp, gen)
		if err != nil {
			l.snapshotFailed(err)
			return
		}
		l.snapshotSize.Store(size)
		l.removeBefore(gen)
	})
}

func (l *Log) snapshotFailed(err error) {
	l.logger.Warn("embedded: the log could not write a snapshot and continues to grow",
		"event", eventSnapshotFailed, "error", err)
}

// rotate replaces the log by an empty one of the next generation. All of the old one is durable afterwards. After an
// error, the old one is still in use. The database is locked.
func (l *Log) rotate() error {
	l.syncMu.Lock()
	old := l.file
	err := old.Sync()
	if err != nil {
		l.unsyncable.Store(true)
	}
	l.syncMu.Unlock()
	if err != nil {
		l.syncFailed(err)
		return err
	}
	l.advance(l.end)
	f, err := l.createLog(l.gen+1, l.seq)
	if err != nil {
		return err
	}
	next := manifest{l.gen + 1, l.seq, l.policy}
	if renamed, err := l.writeManifest(next); err != nil {
		_ = f.Close()
		if renamed {
			// It is unknown which log is the current one, so neither may be continued.
			l.syncFailed(err)
		} else {
			_ = os.Remove(f.Name())
		}
		return err
	}
	l.syncMu.Lock()
	l.file = f
	l.syncMu.Unlock()
	_ = old.Close() // synced, so nothing can be lost from here on
	l.gen, l.kept = next.gen, next
	l.size, l.retryAt = record.FileHeaderSize, 0
	return nil
}

// publishSnapshot gives a written snapshot its name and returns its size in bytes.
func (l *Log) publishSnapshot(f *diskFile, tmp string, gen uint64) (size int64, err error) {
	info, err := f.Stat()
	err = errors.Join(err, f.Sync())
	if err = errors.Join(err, f.Close()); err == nil {
		var renamed bool
		if renamed, err = l.publish(tmp, l.snapshotPath(gen)); renamed && err == nil {
			return info.Size(), nil
		}
	}
	_ = os.Remove(tmp)
	return 0, err
}

func (l *Log) writeSnapshot(tmp string, gen uint64, data Data) (*diskFile, error) {
	f, err := l.create(tmp)
	if err != nil {
		return nil, err
	}
	buf := bufio.NewWriterSize(f, 1<<20)
	_, _ = buf.Write(record.FileHeader(gen, l.seq)) // it is smaller than the buffer, so nothing is written yet
	w := record.NewWriter(buf, 1)
	data.Dump(w)
	w.Add(snapshotEnd, strconv.Itoa(data.Len()))
	if err := w.Flush(); err != nil {
		_ = f.Close()
		_ = os.Remove(tmp)
		return nil, err
	}
	return f, nil
}
