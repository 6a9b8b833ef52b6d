package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/aof"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

func lastLog(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "log-*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return names[len(names)-1]
}

func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, ent := range entries {
		data, err := os.ReadFile(filepath.Join(from, ent.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, ent.Name()), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// TestReplayRandom runs random commands and functions with a directory, closes and opens it again, with and without
// snapshots on the way, and expects the same data, stream nodes included.
func TestReplayRandom(t *testing.T) {
	for _, limit := range []int64{1 << 40, 20 << 10} {
		t.Run(fmt.Sprint("limit=", limit), func(t *testing.T) {
			dir := t.TempDir()
			now := time.UnixMilli(1_800_000_000_000)
			var mu sync.Mutex
			clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
			o := Options{Dir: dir, Library: callLibrary, Clock: clock, Fsync: FsyncNever, LogLimit: limit}
			g := gen{rand.New(rand.NewPCG(11, uint64(limit)))}
			seq := 0
			// The twin lives in memory only and never restarts.
			for range 6 {
				e := open(t, o)
				c := connect(t, e)
				for range 1500 {
					words := g.command(&seq)
					switch g.IntN(8) {
					case 0, 1:
						words = append([]string{"FCALL", "two", "1", "calls"}, words...)
					case 2:
						words = []string{"SPOP", g.keyOf("set"), "2"}
					case 3:
						words = []string{"PEXPIRE", g.pick("str", "hash", "set", "zset") + strconv.Itoa(g.IntN(3)), strconv.Itoa(1 + g.IntN(50))}
					case 4:
						words = []string{"XADD", g.keyOf("auto"), "MAXLEN", "~", "30", "*", "n", strconv.Itoa(g.IntN(1000))}
					case 5:
						c.must(t, "MULTI")
						c.must(t, "INCR", "tx")
						c.must(t, "LPUSH", "txlist", strconv.Itoa(g.IntN(10)))
						words = []string{"EXEC"}
					}
					c.must(t, words...)
					mu.Lock()
					now = now.Add(time.Duration(g.IntN(3000)) * time.Microsecond)
					mu.Unlock()
				}
				want := append(c.dump(t), nodes(e))
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				again := open(t, o)
				got := append(connect(t, again).dump(t), nodes(again))
				if len(want) != len(got) {
					t.Fatalf("%d keys, want %d", len(got), len(want))
				}
				for i := range want {
					if want[i] != got[i] {
						t.Fatalf("after replay\n got %s\nwant %s", got[i], want[i])
					}
				}
				if err := again.Close(); err != nil {
					t.Fatal(err)
				}
			}
			snapshots, _ := filepath.Glob(filepath.Join(dir, "snapshot-*"))
			if (len(snapshots) > 0) != (limit < 1<<20) {
				t.Fatalf("limit %d left %v", limit, snapshots)
			}
			all, _ := filepath.Glob(filepath.Join(dir, "*"))
			if len(all) > 4 {
				t.Fatalf("old files stay: %v", all)
			}
		})
	}
}

// nodes describes how streams are divided into nodes, which decides the entries that a later approximate trim removes.
func nodes(e *Engine) string {
	var b strings.Builder
	for _, key := range []string{"st0", "st1", "st2", "auto0", "auto1", "auto2"} {
		if s, ok := keyspace.Get[datatype.Stream](&e.store, key); ok && s != nil {
			fmt.Fprintf(&b, "%s %d %s %s %d:", key, s.Length, s.LastID, s.MaxDeletedID, s.Added)
			for _, n := range s.Nodes {
				fmt.Fprintf(&b, " %d+%d/%d", len(n.Entries), n.Deleted, n.Bytes)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// TestTornTail_StateAfterWholeCall cuts the log at every byte of its last records: the engine opens with the state
// after some whole call.
func TestTornTail_StateAfterWholeCall(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir, Library: pairLibrary})
	for i := range 4 {
		if _, err := e.fcall(context.Background(), "pair", nil, []string{strconv.Itoa(i), "v"}); err != nil {
			t.Fatal(err)
		}
	}
	dir = copyDir(t, dir) // as a kill leaves it
	kept, err := os.ReadFile(filepath.Join(dir, "MANIFEST"))
	if err != nil {
		t.Fatal(err)
	}
	path := lastLog(t, dir)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := len(data); size >= record.FileHeaderSize; size-- {
		if err := os.WriteFile(path, data[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "MANIFEST"), kept, 0o600); err != nil {
			t.Fatal(err)
		}
		var logged bytes.Buffer
		e, err := Open(context.Background(), Options{Dir: dir, Fsync: FsyncNever, Library: pairLibrary, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		if err != nil {
			t.Fatalf("%d of %d bytes: %v", size, len(data), err)
		}
		c := connect(t, e)
		whole, torn := 0, false
		for pos := record.FileHeaderSize; pos < size && !torn; {
			n, _, reason := record.Open(data[pos:size])
			if torn = reason != ""; !torn {
				whole++
				pos += n
			}
		}
		if strings.Contains(logged.String(), "storage.torn_end_dropped") != torn {
			t.Fatalf("%d bytes: logged %q, torn %v", size, logged.String(), torn)
		}
		count := c.must(t, "GET", "count")
		if whole > 0 && count.text != strconv.Itoa(whole) || whole == 0 && !count.null {
			t.Fatalf("%d bytes: count %s, want %d", size, count, whole)
		}
		if l, r := c.must(t, "HLEN", "left").text, c.must(t, "HLEN", "right").text; l != r || l != strconv.Itoa(whole) {
			t.Fatalf("%d bytes: halves %s and %s, want %d", size, l, r, whole)
		}
		// Later writes are appended after the cut.
		if _, err := e.fcall(context.Background(), "pair", nil, []string{"new", "v"}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e, err = Open(context.Background(), Options{Dir: dir, Fsync: FsyncNever, Logger: quiet()})
		if err != nil {
			t.Fatalf("%d bytes, second open: %v", size, err)
		}
		if got := connect(t, e).must(t, "GET", "count").text; got != strconv.Itoa(whole+1) {
			t.Fatalf("%d bytes, second open: count %s", size, got)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCorruption flips every byte of the first of two records: the engine refuses damage that intact records follow.
func TestCorruption(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir})
	c := connect(t, e)
	c.must(t, "SET", "a", "1")
	c.must(t, "SET", "b", "2")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	path := lastLog(t, dir)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := record.Open(data[record.FileHeaderSize:])
	for i := range record.FileHeaderSize + first {
		bad := bytes.Clone(data)
		bad[i] ^= 0x40
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(context.Background(), Options{Dir: dir, Logger: quiet()})
		var ce *CorruptError
		if !errors.Is(err, ErrCorrupt) || !errors.As(err, &ce) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if ce.Path != path || i >= record.FileHeaderSize && ce.Offset != record.FileHeaderSize {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	// Records in a log that should not be there are refused as well.
	if err := os.WriteFile(filepath.Join(dir, "log-000000000003"), append(record.FileHeader(3, 3), data[record.FileHeaderSize:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), Options{Dir: dir, Logger: quiet()}); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir})
	if _, err := Open(context.Background(), Options{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir})
}

// slowDisk makes syncs of the first log wait or fail on demand.
type slowDisk struct {
	mu      sync.Mutex
	syncErr error
	syncing chan struct{} // receives when a sync begins
	proceed chan struct{} // a sync waits for it
}

func (d *slowDisk) fault(op aof.Op, name string) error {
	if op != aof.OpSync || filepath.Base(name) != "log-000000000001" {
		return nil
	}
	d.mu.Lock()
	syncing, proceed, err := d.syncing, d.proceed, d.syncErr
	d.mu.Unlock()
	if syncing != nil {
		syncing <- struct{}{}
		<-proceed
	}
	return err
}

// TestReplyWaitsForSync blocks a sync: until it ends, the engine sends neither the reply of a write, nor a read of the
// written data, nor its message, while other calls run.
func TestReplyWaitsForSync(t *testing.T) {
	f := &slowDisk{}
	e := open(t, Options{Dir: t.TempDir(), fault: f.fault})
	writer, reader, listener, waiting := connect(t, e), connect(t, e), connect(t, e), connect(t, e)
	listener.must(t, "SUBSCRIBE", "ch")
	if err := waiting.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$"); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.syncing, f.proceed = make(chan struct{}), make(chan struct{})
	f.mu.Unlock()

	early := func(c *rawClient) bool {
		n, _, held := c.conn.(*pipeConn).s.replies.Take(make([]byte, 64))
		return n > 0 || !held
	}
	if err := writer.send("MULTI"); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"SET", "k", "v"}, {"PUBLISH", "ch", "m"}, {"XADD", "s", "1-1", "f", "x"}, {"EXEC"}} {
		if err := writer.send(words...); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		if _, err := writer.read(); err != nil {
			t.Fatal(err)
		}
	}
	<-f.syncing
	if err := reader.send("GET", "k"); err != nil {
		t.Fatal(err)
	}
	if early(writer) || early(reader) || early(listener) {
		t.Fatal("output left before the sync")
	}
	blocked := waiting.conn.(*pipeConn).s.replies
	for held := false; !held; {
		<-blocked.Ready()
		var n int
		if n, _, held = blocked.Take(make([]byte, 64)); n > 0 {
			t.Fatal("a blocked read was answered before the sync")
		}
	}
	if _, pos, err := e.do([]string{"GET", "k"}); err != nil || !e.log.HoldsBack(pos) {
		t.Fatal("a direct call does not wait:", pos, err)
	}
	f.mu.Lock()
	f.syncing = nil
	f.mu.Unlock()
	close(f.proceed)
	if v, err := writer.read(); err != nil || v.String() != `*[+OK :1 "1-1"]` {
		t.Fatal(v, err)
	}
	if v, err := reader.read(); err != nil || v.text != "v" {
		t.Fatal(v, err)
	}
	if v, err := waiting.read(); err != nil || !strings.Contains(v.String(), "1-1") {
		t.Fatal(v, err)
	}
	if v, err := listener.read(); err != nil || v.elems[2].text != "m" {
		t.Fatal(v, err)
	}
}

// TestInterruptedSnapshot opens directories with the files that a crash at each step of a snapshot leaves.
func TestInterruptedSnapshot(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir, LogLimit: 1 << 10})
	c := connect(t, e)
	for i := range 100 {
		c.must(t, "SET", fmt.Sprint("k", i), strings.Repeat("x", 50))
	}
	want := c.dump(t)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	snapshots, _ := filepath.Glob(filepath.Join(dir, "snapshot-*"))
	if len(snapshots) != 1 {
		t.Fatal(snapshots)
	}
	check := func(dir string) {
		t.Helper()
		e := open(t, Options{Dir: dir})
		got := connect(t, e).dump(t)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("got %d keys, want %d", len(got), len(want))
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check(copyDir(t, dir))
	leftovers := copyDir(t, dir)
	for name, data := range map[string]string{"snapshot-000000000099.tmp": "half", "log-000000000000": "old", "snapshot-000000000000": "old"} {
		if err := os.WriteFile(filepath.Join(leftovers, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check(leftovers)

	damaged := copyDir(t, dir)
	path := filepath.Join(damaged, filepath.Base(snapshots[0]))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{len(data) - 1, len(data) / 2, record.FileHeaderSize, 3} {
		if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), Options{Dir: damaged, Logger: quiet()}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("snapshot cut at %d: %v", cut, err)
		}
	}
}
