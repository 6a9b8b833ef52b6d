package aof

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words is data that keeps the first word of every command.
type words []string

func (w *words) Apply(command []string) error {
	*w = append(*w, command[0])
	return nil
}

func (w *words) Dump(out *record.Writer) {
	for _, word := range *w {
		out.Add(word)
	}
}

func (w *words) Len() int { return len(*w) }

// wordList is a database of words.
type wordList struct {
	sync.Mutex
	words words
	log   *Log
}

func (d *wordList) Data() Data    { return &d.words }
func (d *wordList) NewData() Data { return &words{} }
func (d *wordList) Resume(data Data, _ bool) {
	if data != nil {
		d.words = *data.(*words)
	}
}

func openWords(t *testing.T, o Options) *wordList {
	t.Helper()
	d := &wordList{}
	o.Logger, o.RetryPause = slog.New(slog.DiscardHandler), time.Millisecond
	if o.Limit == 0 {
		o.Limit = 1 << 20
	}
	log, err := Open(context.Background(), o, d)
	require.NoError(t, err)
	d.log = log
	return d
}

// add runs one unit as the engine does. It returns the error of the log.
func (d *wordList) add(word string) error {
	d.Lock()
	defer d.Unlock()
	if failure := d.log.Failure(); failure != nil {
		return failure
	}
	_ = d.words.Apply([]string{word})
	if err := d.log.Append(record.AppendCommand(record.Start(nil), []string{word})); err != nil {
		return err
	}
	if d.log.Full() {
		d.log.Rewrite()
	}
	return nil
}

func (d *wordList) serves(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return d.log.Failure() == nil }, 5*time.Minute, time.Millisecond)
}

// TestReopen appends under every policy, with and without snapshots, and reads everything again.
func TestReopen(t *testing.T) {
	for _, policy := range []Policy{Always, EverySecond, Never} {
		for _, limit := range []int64{0, 100} {
			o := Options{Dir: t.TempDir(), Policy: policy, Limit: limit}
			d := openWords(t, o)
			want := words{}
			for i := range 50 {
				word := string(rune('a' + i%26))
				require.NoError(t, d.add(word))
				want = append(want, word)
				require.NoError(t, d.log.Wait(t.Context(), d.log.End()))
			}
			require.NoError(t, d.log.Close())
			d = openWords(t, o)
			require.Equal(t, want, d.words)
			require.NoError(t, d.log.Close())
		}
	}
}

// TestFailedWrite refuses one write: the unit is undone, and those before and after it are kept.
func TestFailedWrite(t *testing.T) {
	var mu sync.Mutex
	broken := false
	o := Options{Dir: t.TempDir(), Fault: func(op Op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if broken && op == OpWrite && filepath.Base(name) == "log-000000000001" {
			broken = false
			return &os.PathError{Op: string(op), Path: name, Err: syscall.ENOSPC}
		}
		return nil
	}}
	d := openWords(t, o)
	require.NoError(t, d.add("one"))
	mu.Lock()
	broken = true
	mu.Unlock()
	require.ErrorIs(t, d.add("refused"), syscall.ENOSPC)
	d.serves(t)
	require.NoError(t, d.add("two"))
	require.Equal(t, words{"one", "two"}, d.words)
	require.NoError(t, d.log.Close())
	d = openWords(t, o)
	require.Equal(t, words{"one", "two"}, d.words)
	require.NoError(t, d.log.Close())
}

type namedFile struct {
	*os.File
	name string
}

func (f namedFile) Name() string { return f.name }

// TestFullDevice puts the kernel's full device in the place of the log: it takes no byte, and can neither be cut nor
// synced.
func TestFullDevice(t *testing.T) {
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("/dev/full is missing:", err)
	}
	o := Options{Dir: t.TempDir()}
	d := openWords(t, o)
	want := words{"a", "b", "c", "d", "e", "f"}
	for _, word := range want[:3] {
		require.NoError(t, d.add(word))
	}
	require.NoError(t, d.log.Wait(t.Context(), d.log.End()))
	d.log.syncMu.Lock()
	old := d.log.file
	d.log.file = namedFile{device, old.Name()}
	d.log.syncMu.Unlock()
	require.NoError(t, old.Close())
	require.Error(t, d.add("refused"))
	d.serves(t)
	for _, word := range want[3:] {
		require.NoError(t, d.add(word))
	}
	require.Equal(t, want, d.words)
	require.NoError(t, d.log.Close())
	d = openWords(t, o)
	require.Equal(t, want, d.words)
	require.NoError(t, d.log.Close())
}

// TestSnapshotEnd cuts the last record off a snapshot.
func TestSnapshotEnd(t *testing.T) {
	var b bytesWriter
	w := record.NewWriter(bufio.NewWriter(&b), 1)
	w.Add("a")
	require.NoError(t, w.Flush())
	dir := t.TempDir()
	path := filepath.Join(dir, "snapshot-000000000001")
	require.NoError(t, os.WriteFile(path, slices.Concat(record.FileHeader(1, 1), b), 0o600))
	_, err := Open(context.Background(), Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)}, &wordList{})
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "end of the snapshot is missing")
}

type bytesWriter []byte

func (b *bytesWriter) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// TestUnsyncedIsBounded appends without a goroutine that syncs: the log does it itself before more than the bound can
// be lost.
func TestUnsyncedIsBounded(t *testing.T) {
	f, err := (&disk{}).create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	l := &Log{policy: Always, file: f, kick: make(chan struct{}, 1), change: make(chan struct{})}
	const size = maxUnsynced / 3
	for range 20 {
		require.NoError(t, l.Append(make([]byte, size)))
		require.LessOrEqual(t, l.written.Load()-l.durable.Load(), int64(maxUnsynced+size))
	}
	require.NotZero(t, l.durable.Load())
	require.NoError(t, f.Close())
}

// TestRetryPace sees that a log that fails again and again is tried less and less often.
func TestRetryPace(t *testing.T) {
	p := retryPace{first: time.Second, longest: 5 * time.Second}
	at := time.Unix(1000, 0)
	var got []time.Duration
	for range 3 {
		got = append(got, p.next(at))
	}
	at = at.Add(steadyTime)
	got = append(got, p.next(at))
	at = at.Add(steadyTime + 1)
	got = append(got, p.next(at), p.next(at))
	require.Equal(t, []time.Duration{1e9, 2e9, 4e9, 5e9, 1e9, 2e9}, got)
}

// A directory in which Open has stored no data yet is not an engine. A directory with any file that shows stored data
// is one, whatever the state of the other files.
func TestExists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files  []string
		exists bool
	}{
		{nil, false},
		{[]string{"LOCK"}, false},
		{[]string{"LOCK", "log-000000000001.tmp", "snapshot-000000000002.tmp", "MANIFEST.tmp", "room.tmp"}, false},
		{[]string{"README", "logbook"}, false},
		{[]string{"LOCK", "MANIFEST"}, true}, // its log was removed
		{[]string{"log-000000000001"}, true}, // of a version without a manifest, or emptied
		{[]string{"snapshot-000000000002"}, true},
	} {
		dir := t.TempDir()
		for _, name := range c.files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		exists, err := Exists(dir)
		require.NoError(t, err)
		require.Equal(t, c.exists, exists, "%v", c.files)
	}
	exists, err := Exists(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	require.False(t, exists)
}
