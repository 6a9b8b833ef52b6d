package embedded

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/aof"
)

// badDisk fails operations on the data directory.
type badDisk struct {
	mu     sync.Mutex
	ops    []aof.Op // the first is counted; with it, the others fail as well
	nth    int      // the first operation that fails, from 1 on
	lasts  bool     // all later ones fail as well, until heal
	count  int
	healed bool
	dead   bool             // nothing reaches the disk, as after a kill
	keeps  bool             // a failed sync loses nothing
	synced map[string]int64 // size of each file at its last sync
}

func (d *badDisk) fault(op aof.Op, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return syscall.EIO
	}
	broken := d.nth > 0 && d.count >= d.nth && !d.healed
	hit := false
	for i, bad := range d.ops {
		if op != bad {
			continue
		}
		if i == 0 {
			d.count++
			hit = d.nth > 0 && (d.count == d.nth || d.lasts && d.count > d.nth)
		} else {
			hit = broken
		}
	}
	hit = hit && !d.healed
	if d.synced == nil {
		d.synced = map[string]int64{}
	}
	switch {
	case op == aof.OpRename && !hit:
		d.synced[name] = d.synced[name+".tmp"]
	case op == aof.OpSync && hit && d.keeps:
	case op == aof.OpSync && hit:
		// Data that a failed sync has not written is lost, though a later sync may succeed.
		if err := os.Truncate(name, d.synced[name]); err != nil {
			return err
		}
	case op == aof.OpSync:
		if info, err := os.Stat(name); err == nil {
			d.synced[name] = info.Size()
		}
	}
	if hit {
		return &os.PathError{Op: string(op), Path: name, Err: syscall.EIO}
	}
	return nil
}

func (d *badDisk) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.healed = true
}

func (d *badDisk) die() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

// history are the replies to callers of pairLibrary, by ids.
type history struct {
	told, refused, unknown map[string]bool
	next                   int
}

func newHistory() *history {
	return &history{map[string]bool{}, map[string]bool{}, map[string]bool{}, 0}
}

// calls writes n pairs, each followed by a read over another connection.
func (h *history) calls(t *testing.T, e *Engine, n int) {
	t.Helper()
	writer, reader := connect(t, e), connect(t, e)
	for range n {
		h.next++
		id := "id" + strconv.Itoa(h.next)
		v, err := writer.do("FCALL", "pair", "0", id, strings.Repeat("v", 100))
		switch {
		case err != nil:
			h.unknown[id] = true
			writer = connect(t, e)
		case v.kind == '-':
			require.True(t, strings.HasPrefix(v.text, "MISCONF "), v.text)
			h.refused[id] = true
		default:
			require.Equal(t, id, v.text)
			h.told[id] = true
		}
		v, err = reader.do("HGETALL", "left")
		if err != nil {
			reader = connect(t, e)
			continue
		}
		if v.kind == '-' {
			require.True(t, strings.HasPrefix(v.text, "MISCONF "), v.text)
			require.NotContains(t, v.text, "id")
			continue
		}
		for id := range pairs(v) {
			h.told[id] = true // a read acknowledges, too
		}
	}
}

// check compares the data of an engine with the acknowledged and refused calls.
func (h *history) check(t *testing.T, e *Engine) {
	t.Helper()
	c := connect(t, e)
	left, right := pairs(c.must(t, "HGETALL", "left")), pairs(c.must(t, "HGETALL", "right"))
	for id := range h.told {
		require.Contains(t, left, id, "was acknowledged and is lost")
	}
	for id := range h.refused {
		require.NotContains(t, left, id, "was refused and exists")
	}
	require.Equal(t, left, right, "half a call is there")
	if len(left) > 0 {
		require.Equal(t, strconv.Itoa(len(left)), c.must(t, "GET", "count").text)
	}
}

func (h *history) String() string {
	return fmt.Sprintf("acknowledged %d, refused %d, unknown %d", len(h.told), len(h.refused), len(h.unknown))
}

// serves waits until calls are served.
func serves(t *testing.T, e *Engine) {
	t.Helper()
	require.Eventually(t, func() bool { return e.Err() == nil }, 5*time.Minute, time.Millisecond)
}

// TestEveryDiskFault fails each operation on the data directory once, with every sync policy. Calls continue by
// themselves afterwards. Acknowledged writes exist and refused ones do not: at once, after the engine was closed, and
// after it was killed while the disk was still broken.
func TestEveryDiskFault(t *testing.T) {
	for _, policy := range []Fsync{FsyncAlways, FsyncEverySecond, FsyncNever} {
		for _, ops := range [][]aof.Op{{aof.OpWrite}, {aof.OpWrite, aof.OpTruncate}, {aof.OpWrite, aof.OpTruncate, aof.OpRead}, {aof.OpSync}, {aof.OpCreate}, {aof.OpRename}, {aof.OpSyncDir}} {
			t.Run(fmt.Sprint(fmt.Sprint("fsync ", policy), ops), func(t *testing.T) {
				t.Parallel()
				sum := newHistory()
				for _, kind := range []struct{ lasts, killed bool }{{false, false}, {true, false}, {true, true}} {
					for nth := 1; brokenDisk(t, policy, &badDisk{ops: ops, nth: nth, lasts: kind.lasts}, kind.killed, sum); nth++ {
						require.Less(t, nth, 200)
					}
				}
				require.NotEmpty(t, sum.told)
				if ops[0] == aof.OpWrite {
					require.NotEmpty(t, sum.refused, "nothing failed, so the test proves nothing")
				}
			})
		}
	}
}

// brokenDisk runs the calls of one engine on a disk. It reports whether an operation failed.
func brokenDisk(t *testing.T, policy Fsync, d *badDisk, killed bool, sum *history) bool {
	t.Helper()
	dir := memoryDir(t)
	d.keeps = killed && policy != FsyncAlways // other policies may lose acknowledged calls when the machine fails
	o := Options{Dir: dir, Library: pairLibrary, Fsync: policy, LogLimit: 1 << 10, Logger: quiet(), fault: d.fault, retryPause: time.Millisecond}
	h := newHistory()
	e, err := Open(context.Background(), o)
	if err == nil {
		h.calls(t, e, 6)
		if killed {
			d.die()
			_ = e.Close() // it can do nothing after that
		} else {
			d.heal()
			serves(t, e)
			h.check(t, e)
			h.calls(t, e, 2)
			h.check(t, e)
			require.NoError(t, e.Close())
		}
	}
	o.fault = nil
	h.checkDir(t, o)
	for _, m := range []struct{ from, to map[string]bool }{{h.told, sum.told}, {h.refused, sum.refused}, {h.unknown, sum.unknown}} {
		for id := range m.from {
			m.to[id] = true
		}
	}
	return d.count >= d.nth
}

// memoryDir returns a new directory on a disk that is fast, where there is one.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "embedded-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// checkDir opens a directory, compares and closes.
func (h *history) checkDir(t *testing.T, o Options) {
	t.Helper()
	e, err := Open(context.Background(), o)
	require.NoError(t, err)
	h.check(t, e)
	require.NoError(t, e.Close())
}

// smallDisk mounts a file system of a size in bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := mountTmpfs(dir, size); err != nil {
		t.Skipf("mounting a file system is refused here, so only made-up faults are tested: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unmount(dir)) })
	return dir
}

// fill takes all room that is left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			return
		}
	}
}

// TestFullDisk fills a real file system: the call that does not fit is refused without any effect, all others are
// refused as well, and once the disk has room again the engine continues.
func TestFullDisk(t *testing.T) {
	for _, policy := range []Fsync{FsyncAlways, FsyncEverySecond, FsyncNever} {
		t.Run(fmt.Sprint("fsync ", policy), func(t *testing.T) {
			disk := smallDisk(t, 2<<20)
			log := &events{}
			o := Options{Dir: filepath.Join(disk, "data"), Library: pairLibrary, Fsync: policy, Logger: log.logger(), retryPause: time.Millisecond}
			e := open(t, o)
			listener := connect(t, e)
			listener.must(t, "SUBSCRIBE", "ch")
			h := newHistory()
			h.calls(t, e, 3)
			require.NoError(t, e.Err())
			for round := 1; round <= 2; round++ {
				ballast := filepath.Join(disk, "ballast")
				fill(t, ballast)
				for len(h.refused) == 0 || e.Err() == nil { // the rest of the last page may take some
					h.calls(t, e, 1)
				}
				require.ErrorIs(t, e.Err(), syscall.ENOSPC)
				require.ErrorContains(t, e.Err(), o.Dir)
				c := connect(t, e)
				for _, words := range [][]string{{"GET", "count"}, {"PING"}, {"SET", "k", "v"}, {"PUBLISH", "ch", "m"}, {"XREAD", "BLOCK", "0", "STREAMS", "events", "0"}} {
					require.Contains(t, c.must(t, words...).text, "MISCONF the log cannot be written", words)
				}
				c.must(t, "MULTI")
				c.must(t, "GET", "count")
				require.Contains(t, c.must(t, "EXEC").text, "MISCONF ")
				require.Contains(t, c.must(t, "INFO", "persistence").text, "aof_last_write_status:err")
				_, err := e.fcall(context.Background(), "pair", nil, []string{"direct", "v"})
				require.ErrorContains(t, err, "MISCONF ")
				h.refused["direct"] = true
				require.Equal(t, round, log.count("storage.failed"))

				require.NoError(t, os.Remove(ballast))
				serves(t, e)
				require.Equal(t, round, log.count("storage.restored"))
				h.check(t, e)
				clear(h.refused)
				h.calls(t, e, 3)
				h.check(t, e)
				require.Empty(t, h.refused)
			}
			connect(t, e).must(t, "PUBLISH", "ch", "after")
			v, err := listener.read()
			require.NoError(t, err)
			require.Equal(t, "after", v.elems[2].text, "the connection stays, and receives only applied writes")
			require.Empty(t, h.unknown)
			require.NoError(t, e.Close())
			h.checkDir(t, o)
		})
	}
}

// TestRefusedMessages checks that a unit that could not be logged neither wakes a waiting reader nor publishes a
// message.
func TestRefusedMessages(t *testing.T) {
	d := &badDisk{ops: []aof.Op{aof.OpWrite}, lasts: true}
	e := open(t, Options{Dir: t.TempDir(), fault: d.fault, retryPause: time.Millisecond})
	listener, waiting, c := connect(t, e), connect(t, e), connect(t, e)
	listener.must(t, "SUBSCRIBE", "ch")
	c.must(t, "XADD", "s", "1-1", "f", "old")
	require.NoError(t, waiting.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$"))
	d.mu.Lock()
	d.nth = d.count + 1
	d.mu.Unlock()
	for _, words := range [][]string{{"MULTI"}, {"XADD", "s", "2-1", "f", "refused"}, {"PUBLISH", "ch", "refused"}} {
		c.must(t, words...)
	}
	require.Contains(t, c.must(t, "EXEC").text, "MISCONF ")
	d.heal()
	serves(t, e)
	require.Equal(t, ":1", c.must(t, "XLEN", "s").String())
	c.must(t, "XADD", "s", "3-1", "f", "new")
	v, err := waiting.read()
	require.NoError(t, err)
	require.Contains(t, v.String(), "new")
	require.NotContains(t, v.String(), "refused")
	c.must(t, "PUBLISH", "ch", "new")
	v, err = listener.read()
	require.NoError(t, err)
	require.Equal(t, "new", v.elems[2].text)
}

// TestFailedSync lets a sync fail while replies and messages wait for it. They are never sent, neither then nor by a
// later read; the connections end, and all data exists once the engine has written it to other files.
func TestFailedSync(t *testing.T) {
	dir := t.TempDir()
	f := &slowDisk{}
	e := open(t, Options{Dir: dir, Library: pairLibrary, fault: f.fault, retryPause: time.Millisecond})
	writer, reader, listener, idle := connect(t, e), connect(t, e), connect(t, e), connect(t, e)
	listener.must(t, "SUBSCRIBE", "ch")
	f.mu.Lock()
	f.syncing, f.proceed, f.syncErr = make(chan struct{}), make(chan struct{}), syscall.EIO
	f.mu.Unlock()
	require.NoError(t, writer.send("FCALL", "pair", "0", "one", "v"))
	<-f.syncing
	require.NoError(t, reader.send("HGETALL", "left"))
	require.NoError(t, writer.send("PUBLISH", "ch", "m"))
	_, direct, err := e.do([]string{"FCALL", "pair", "0", "two", "v"})
	require.NoError(t, err)
	e.gate.Lock() // no repair before all have seen the failure
	f.mu.Lock()
	f.syncing = nil
	f.mu.Unlock()
	close(f.proceed)
	for _, c := range []*rawClient{writer, reader, listener} {
		_, err := c.read()
		require.Error(t, err, "a reply or message was sent")
	}
	err = e.log.Wait(context.Background(), direct)
	require.ErrorContains(t, err, "not known whether the call is kept")
	require.ErrorIs(t, err, syscall.EIO)
	e.gate.Unlock()
	serves(t, e)
	require.Contains(t, pairs(idle.must(t, "HGETALL", "left")), "one")
	require.Contains(t, lastLog(t, dir), "log-000000000002", "a file whose sync has failed is not written again")
	want := idle.dump(t)
	require.NoError(t, e.Close())
	require.Equal(t, want, connect(t, open(t, Options{Dir: dir})).dump(t))
}

// TestRepairInSteps interrupts a repair once its snapshot has replaced the log: the log must not be written after that,
// although it is writable again.
func TestRepairInSteps(t *testing.T) {
	var mu sync.Mutex
	left := map[aof.Op]int{}
	o := Options{Dir: t.TempDir(), Library: pairLibrary, Logger: quiet(), retryPause: time.Millisecond}
	o.fault = func(op aof.Op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if left[op] == 0 || op == aof.OpCreate && !strings.HasSuffix(name, "log-000000000002.tmp") {
			return nil
		}
		left[op]--
		return syscall.EIO
	}
	e := open(t, o)
	h := newHistory()
	h.calls(t, e, 3)
	mu.Lock()
	left[aof.OpWrite], left[aof.OpTruncate], left[aof.OpCreate] = 1, 2, 1
	mu.Unlock()
	h.calls(t, e, 1)
	serves(t, e)
	require.Equal(t, map[aof.Op]int{aof.OpWrite: 0, aof.OpTruncate: 0, aof.OpCreate: 0}, left)
	h.calls(t, e, 3)
	require.Len(t, h.told, 6)
	require.NoError(t, e.Close())
	o.fault = nil
	h.checkDir(t, o)
}

// TestRepairFails_EngineRefusesCalls prevents the log from being read again: the engine reports the fault, continues to
// refuse calls, and opens later with all acknowledged writes.
func TestRepairFails_EngineRefusesCalls(t *testing.T) {
	d := &badDisk{ops: []aof.Op{aof.OpWrite, aof.OpRead}}
	o := Options{Dir: t.TempDir(), Library: pairLibrary, fault: d.fault, retryPause: time.Millisecond, Logger: quiet()}
	e, err := Open(context.Background(), o)
	require.NoError(t, err)
	h := newHistory()
	h.calls(t, e, 3)
	d.mu.Lock()
	d.nth = d.count + 1
	d.mu.Unlock()
	h.calls(t, e, 1)
	require.Len(t, h.refused, 1)
	require.Eventually(t, func() bool { return strings.Contains(fmt.Sprint(e.Err()), "cannot be read again") }, 5*time.Minute, time.Millisecond)
	require.ErrorIs(t, e.Close(), syscall.EIO)
	require.ErrorIs(t, e.Err(), ErrClosed)
	o.fault = nil
	h.checkDir(t, o)
}

// events counts log records by their event.
type events struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *events) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&lockedWriter{&l.mu, &l.text}, nil))
}

func (l *events) count(event string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "event="+event+" ")
}
