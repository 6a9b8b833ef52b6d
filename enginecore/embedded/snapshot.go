package embedded

import (
	"bufio"
	"errors"
	"os"
	"strconv"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
)

// Commands that only snapshots hold, because no client command rebuilds a stream with its nodes.
const (
	snapshotOnly   = "\x00"
	snapshotStream = snapshotOnly + "STREAM" // key, last id, greatest deleted id, entries ever added
	snapshotNode   = snapshotOnly + "NODE"   // key, first id, deleted, bytes, number of names, names …, then per entry: id, number of words, words …
	snapshotEnd    = snapshotOnly + "END"    // number of keys
)

// full reports whether the log is worth replacing. The gate is held.
func (l *effectLog) full() bool {
	return l.size > l.limit && l.size > 2*l.snapshotSize.Load() && l.size > l.retryAt && !l.rewriting.Load() && l.refusal.Load() == nil
}

// snapshot starts a new log and writes down the state before it. The state is written under the gate, which makes calls
// wait as long as the system takes to accept it; syncing and cleaning up happen in the background. A snapshot that fails
// costs disk space only: the old files stay.
func (e *Engine) snapshot() {
	l := e.log
	if err := l.rotate(); err != nil {
		l.retryAt = 2 * l.size
		l.logger.Warn("embedded: no new log", "error", err)
		return
	}
	gen := l.gen
	tmp := l.snapshotPath(gen) + tmpSuffix
	f, err := l.writeSnapshot(tmp, gen, &e.store)
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

func (l *effectLog) snapshotFailed(err error) {
	l.logger.Warn("embedded: snapshot failed; the log goes on growing", "error", err)
}

// rotate replaces the log by an empty one of the next generation. All of the old one is durable afterwards. After an error,
// the old one is still in use. The gate is held.
func (l *effectLog) rotate() error {
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
	_ = old.Close() // synced, so nothing can be lost any more
	l.gen, l.kept = next.gen, next
	l.size, l.retryAt = fileHeader, 0
	return nil
}

// publishSnapshot gives a written snapshot its name and returns its size in bytes.
func (l *effectLog) publishSnapshot(f *diskFile, tmp string, gen uint64) (size int64, err error) {
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

func (l *effectLog) writeSnapshot(tmp string, gen uint64, data *keyspace.Store) (*diskFile, error) {
	f, err := l.create(tmp)
	if err != nil {
		return nil, err
	}
	w := &snapshotWriter{w: bufio.NewWriterSize(f, 1<<20), record: startRecord(nil), seq: 1}
	w.write(makeHeader(gen, l.seq))
	data.Keys.Each(func(key string, ent *keyspace.Entry) bool {
		w.value(key, ent)
		return w.err == nil
	})
	w.add(snapshotEnd, itoa(int64(data.Keys.Len())))
	w.flush()
	if w.err == nil {
		w.err = w.w.Flush()
	}
	if w.err != nil {
		_ = f.Close()
		_ = os.Remove(tmp)
		return nil, w.err
	}
	return f, nil
}

// snapshotWriter packs commands into records of about a megabyte.
type snapshotWriter struct {
	w      *bufio.Writer
	record []byte
	seq    uint64
	err    error
}

func (w *snapshotWriter) write(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

func (w *snapshotWriter) add(words ...string) {
	w.record = appendCommand(w.record, words)
	if len(w.record) > 1<<20 {
		w.flush()
	}
}

func (w *snapshotWriter) flush() {
	if len(w.record) == recordHeader {
		return
	}
	sealRecord(w.record, w.seq)
	w.seq++
	w.write(w.record)
	w.record = startRecord(w.record)
}

// list writes a command with any number of items in pieces.
func (w *snapshotWriter) list(verb, key string, items []string) {
	const piece = 1024 // even, as some items are pairs
	for len(items) > 0 {
		n := min(len(items), piece)
		w.add(append([]string{verb, key}, items[:n]...)...)
		items = items[n:]
	}
}

func (w *snapshotWriter) value(key string, ent *keyspace.Entry) {
	switch v := ent.Val.(type) {
	case string:
		w.add("SET", key, v)
	case *datatype.Hash:
		items := make([]string, 0, 2*v.Len())
		v.Each(func(f, s string) bool { items = append(items, f, s); return true })
		w.list("HSET", key, items)
	case *datatype.Set:
		w.list("SADD", key, v.Keys())
	case *datatype.List:
		w.list("RPUSH", key, v.Items())
	case *datatype.SortedSet:
		items := make([]string, 0, 2*v.Len())
		v.Each(func(m string, s float64) bool { items = append(items, numfmt.FormatScore(s), m); return true })
		w.list("ZADD", key, items)
	case *datatype.Stream:
		w.add(snapshotStream, key, v.LastID.String(), v.MaxDeletedID.String(), strconv.FormatUint(v.Added, 10))
		for _, n := range v.Nodes {
			w.node(key, n)
		}
	}
	if ent.ExpireAt != 0 {
		w.add("PEXPIREAT", key, itoa(ent.ExpireAt))
	}
}

func (w *snapshotWriter) node(key string, n *datatype.StreamNode) {
	words := []string{snapshotNode, key, datatype.StreamID{Ms: n.FirstMs, Seq: n.First}.String(), strconv.Itoa(n.Deleted), strconv.Itoa(n.Bytes), strconv.Itoa(len(n.Master))}
	words = append(words, n.Master...)
	for _, e := range n.Entries {
		words = append(words, e.ID.String(), strconv.Itoa(len(e.Fields)))
		words = append(words, e.Fields...)
	}
	w.add(words...)
}

var errMalformed = errors.New("snapshot entry is malformed")

// restoreNode appends a node as snapshotWriter.node wrote it.
func restoreNode(s *datatype.Stream, words []string) error {
	first, ok := datatype.ParseStreamID(words[0], 0)
	deleted, err1 := strconv.Atoi(words[1])
	size, err2 := strconv.Atoi(words[2])
	names, err3 := strconv.Atoi(words[3])
	words = words[4:]
	if !ok || err1 != nil || err2 != nil || err3 != nil || names < 0 || names > len(words) {
		return errMalformed
	}
	n := &datatype.StreamNode{FirstMs: first.Ms, First: first.Seq, Deleted: deleted, Bytes: size, Master: words[:names:names]}
	words = words[names:]
	for len(words) > 0 {
		if len(words) < 2 {
			return errMalformed
		}
		id, ok := datatype.ParseStreamID(words[0], 0)
		count, err := strconv.Atoi(words[1])
		if !ok || err != nil || count < 0 || count > len(words)-2 {
			return errMalformed
		}
		n.Entries = append(n.Entries, datatype.StreamEntry{ID: id, Fields: words[2 : 2+count : 2+count]})
		words = words[2+count:]
	}
	if len(n.Entries) == 0 {
		return errMalformed
	}
	s.Nodes = append(s.Nodes, n)
	s.Length += len(n.Entries)
	return nil
}
