package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// openLog locks the data directory, loads the last snapshot and the logs since, and opens the last log for appending.
func (e *Engine) openLog(ctx context.Context, o Options) (err error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("embedded: data directory: %w", err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	l := &effectLog{dir: o.Dir, policy: o.Fsync, limit: o.LogLimit, logger: e.logger, lock: lock, seq: 1}
	if l.policy == FsyncDefault {
		l.policy = FsyncAlways
	}
	snapshots, logs, err := l.files()
	if err != nil {
		return err
	}
	e.store.frozen = true
	if err := e.replay(ctx, l, snapshots, logs); err != nil {
		return err
	}
	e.store.frozen = false
	e.store.dirty, e.store.effects, e.grown, e.published = 0, nil, nil, nil
	e.log = l
	l.start()
	return nil
}

// files lists the generations present and removes what an interrupted snapshot left behind.
func (l *effectLog) files() (snapshots, logs []uint64, err error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("embedded: data directory: %w", err)
	}
	for _, ent := range entries {
		name := ent.Name()
		if strings.HasSuffix(name, ".tmp") && strings.HasPrefix(name, "snapshot-") {
			if err := os.Remove(filepath.Join(l.dir, name)); err != nil {
				return nil, nil, fmt.Errorf("embedded: data directory: %w", err)
			}
			continue
		}
		for prefix, list := range map[string]*[]uint64{"snapshot-": &snapshots, "log-": &logs} {
			if text, ok := strings.CutPrefix(name, prefix); ok {
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

func (e *Engine) replay(ctx context.Context, l *effectLog, snapshots, logs []uint64) error {
	base := uint64(0)
	if n := len(snapshots); n > 0 {
		base = snapshots[n-1]
		if err := e.loadSnapshot(ctx, l, base); err != nil {
			return err
		}
	}
	// Files from before the snapshot are leftovers of an interrupted clean-up.
	l.removeBefore(base, snapshots, logs)
	logs = slices.DeleteFunc(logs, func(gen uint64) bool { return gen < base })
	if len(logs) == 0 {
		if base > 0 {
			return &CorruptError{Path: l.logPath(base), Reason: "file is missing"}
		}
		l.gen = 1
		f, err := l.createLog(l.gen)
		if err != nil {
			return fmt.Errorf("embedded: create log: %w", err)
		}
		l.file, l.size = f, fileHeader
		return nil
	}
	want := max(base, 1)
	for i, gen := range logs {
		if gen != want {
			return &CorruptError{Path: l.logPath(want), Reason: "file is missing"}
		}
		want++
		if err := e.replayLog(ctx, l, gen, i == len(logs)-1); err != nil {
			return err
		}
	}
	return nil
}

// replayLog applies one log. The last one is cut behind its last intact record and stays open.
func (e *Engine) replayLog(ctx context.Context, l *effectLog, gen uint64, last bool) error {
	path := l.logPath(gen)
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("embedded: read log: %w", err)
	}
	l.gen = gen
	if len(data) < fileHeader && last {
		// The crash came while the file was created: nothing in it was ever acknowledged.
		f, err := l.createLog(gen)
		if err != nil {
			return fmt.Errorf("embedded: create log: %w", err)
		}
		l.file, l.size = f, fileHeader
		return nil
	}
	first, reason := readHeader(data, gen)
	if reason == "" && first != l.seq {
		reason = fmt.Sprintf("begins with record %d instead of %d", first, l.seq)
	}
	if reason != "" {
		return &CorruptError{Path: path, Reason: reason}
	}
	good, reason, err := e.applyRecords(ctx, path, data, &l.seq)
	if err != nil {
		return err
	}
	if reason != "" && (!last || validRecordAfter(data[good:])) {
		return &CorruptError{Path: path, Offset: good, Reason: reason}
	}
	if !last {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("embedded: open log: %w", err)
	}
	if reason != "" {
		e.logger.Warn("embedded: dropped the torn end of the log", "path", path, "offset", good, "bytes", int64(len(data))-good, "reason", reason)
		if err := errors.Join(f.Truncate(good), f.Sync()); err != nil {
			_ = f.Close()
			return fmt.Errorf("embedded: cut log: %w", err)
		}
	}
	if _, err := f.Seek(good, io.SeekStart); err != nil {
		_ = f.Close()
		return fmt.Errorf("embedded: open log: %w", err)
	}
	l.file, l.size = f, good
	return nil
}

// applyRecords runs the records behind the file header. It returns the offset of the first bad one and what is wrong
// with it.
func (e *Engine) applyRecords(ctx context.Context, path string, data []byte, seq *uint64) (good int64, reason string, err error) {
	pos := fileHeader
	for pos < len(data) {
		n, got, reason := openRecord(data[pos:])
		if reason == "" && got != *seq {
			reason = fmt.Sprintf("record %d stands where %d belongs", got, *seq)
			return 0, "", &CorruptError{Path: path, Offset: int64(pos), Reason: reason}
		}
		if reason != "" {
			return int64(pos), reason, nil
		}
		if *seq%1024 == 0 && ctx.Err() != nil {
			return 0, "", ctx.Err()
		}
		ok, err := readCommands(data[pos+recordHeader:pos+n], e.apply)
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

// apply runs one logged command.
func (e *Engine) apply(words []string) error {
	if strings.HasPrefix(words[0], snapshotOnly) {
		return e.applySnapshotOnly(words)
	}
	cmd := e.command(words[0])
	if cmd == nil || !cmd.arityOK(len(words)) || cmd.flags&cmdWrite == 0 {
		return fmt.Errorf("%q is not a logged command", words[0])
	}
	e.store.effects = e.store.effects[:0]
	if err := cmd.run(&call{store: &e.store, e: e, args: words}).Err(); err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	e.grown = e.grown[:0]
	return nil
}

// removeBefore deletes files of earlier generations. What cannot be deleted is deleted another time.
func (l *effectLog) removeBefore(gen uint64, snapshots, logs []uint64) {
	for _, g := range snapshots {
		if g < gen {
			_ = os.Remove(l.snapshotPath(g))
		}
	}
	for _, g := range logs {
		if g < gen {
			_ = os.Remove(l.logPath(g))
		}
	}
}
