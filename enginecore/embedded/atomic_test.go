package embedded

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// tornReads lets a writer change two keys together while readers compare them. grouped writes with one function call;
// otherwise each key is written by a separate command, as if a call were not one unit.
func tornReads(t *testing.T, grouped bool, enough int64) int64 {
	e := open(t, Options{Library: lib(
		"swap", "for i = 1, 20 do redis.call('SET', KEYS[1], ARGV[1]); redis.call('SET', KEYS[2], ARGV[1]) end return 1",
		"look", "local a = redis.call('MGET', KEYS[1], KEYS[2]); return {a[1] or '', a[2] or ''}")})
	var torn, reads atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		c := connect(t, e)
		wg.Go(func() {
			for !stop.Load() {
				v, err := c.do("FCALL", "look", "2", "a", "b")
				if err != nil {
					t.Error(err)
					return
				}
				reads.Add(1)
				if v.elems[0].text != v.elems[1].text {
					torn.Add(1)
				}
			}
		})
	}
	w := connect(t, e)
	for i := 0; i < 500 || reads.Load() < 2000 || torn.Load() < enough && i < 1_000_000; i++ {
		if grouped {
			w.must(t, "FCALL", "swap", "2", "a", "b", strconv.Itoa(i))
			continue
		}
		w.must(t, "SET", "a", strconv.Itoa(i))
		w.must(t, "SET", "b", strconv.Itoa(i))
	}
	stop.Store(true)
	wg.Wait()
	return torn.Load()
}

// TestAtomic proves that no client sees half a function call, and that the check would notice.
func TestAtomic(t *testing.T) {
	require.Zero(t, tornReads(t, true, 0))
	require.NotZero(t, tornReads(t, false, 1), "the control saw no torn read, so the test proves nothing")
}

// TestLongScript interrupts a script that has not written, logs a script that has, and keeps working after both.
func TestLongScript(t *testing.T) {
	var mu sync.Mutex
	var logged bytes.Buffer
	e := open(t, Options{
		ScriptTimeout: 10 * time.Millisecond,
		Logger:        slog.New(slog.NewTextHandler(&lockedWriter{&mu, &logged}, nil)),
		Library: lib(
			"spin", "while true do end",
			"spinread", "while true do redis.call('GET', 'x') end",
			"stubborn", "while true do pcall(function() while true do end end) end",
			"caught", "while true do xpcall(function() while true do end end, function() end) end",
			"branching", "local function f(n) if n > 0 then f(n - 1) f(n - 1) end end f(60)",
			"mutual", "local t = {} function t.a() return t.b() end function t.b() return t.a() end t.a()",
			"written", "redis.call('SET', 'done', '1') local n = 0 while redis.call('GET', 'stop') == false and n < ARGV[1] + 0 do n = n + 1 end return n",
			"quick", "return 1"),
	})
	c := connect(t, e)
	for _, name := range []string{"spin", "spinread", "stubborn", "caught", "branching", "mutual"} {
		v := c.must(t, "FCALL", name, "0")
		require.Equal(t, byte('-'), v.kind)
		require.Contains(t, v.text, "script timed out")
		require.Contains(t, v.text, "script: "+name+", on @user_function:")
	}
	require.Equal(t, ":200000", c.must(t, "FCALL", "written", "0", "200000").String())
	require.Equal(t, "1", c.must(t, "GET", "done").text)
	require.Equal(t, ":1", c.must(t, "FCALL", "quick", "0").String())
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 6, strings.Count(logged.String(), "function.stopped"))
	require.Equal(t, 1, strings.Count(logged.String(), "function.slow"))
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// TestFault lets a command panic: the caller gets an error, other clients continue.
func TestFault(t *testing.T) {
	e := open(t, Options{})
	e.commands["panic"] = &boundCommand{Command: command.Command{Name: "panic", Arity: 1, Run: func(*command.Call) resp.Reply { panic("on purpose") }}}
	c := connect(t, e)
	v := c.must(t, "panic")
	require.Equal(t, "-ERR internal error in 'panic': on purpose", v.String())
	r, _, err := e.do([]string{"panic"})
	require.NoError(t, err)
	require.Equal(t, resp.KindError, r.Kind)
	require.Equal(t, "+PONG", c.must(t, "PING").String())
}

// TestChurn connects, subscribes, blocks, writes and hangs up in many goroutines while snapshots are taken, and closes
// the engine in the middle of it. The race detector and the check for leaked goroutines do the judging.
func TestChurn(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Library: pairLibrary, LogLimit: 16 << 10, Fsync: FsyncAlways}
	e := open(t, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- e.Serve(context.Background(), l) }()
	var wg sync.WaitGroup
	var answered atomic.Int64
	enough := make(chan struct{})
	for w := range 12 {
		wg.Go(func() {
			for i := 0; ; i++ {
				var conn net.Conn
				var err error
				if w%3 == 0 {
					conn, err = net.Dial("tcp", l.Addr().String())
				} else {
					conn, err = e.dial(context.Background(), "", nil, nil)
				}
				if err != nil {
					return // closed
				}
				c := newRawClient(conn)
				if w%4 == 1 {
					_ = c.send("SUBSCRIBE", "ch")
				}
				for j := range 10 {
					id := fmt.Sprintf("%d-%d-%d", w, i, j)
					received := w%4 == 1
					if received {
						_ = c.send("PING")
					} else if v, err := c.do("FCALL", "pair", "0", id, "v"); err != nil || v.text != id {
						break
					}
					if _, _, err := e.do([]string{"PUBLISH", "ch", id}); err != nil {
						break
					}
					// Those who only listen are fast, and prove nothing.
					if !received && answered.Add(1) == 1000 {
						close(enough)
					}
				}
				if w%4 == 2 {
					_ = c.send("XREAD", "BLOCK", "0", "STREAMS", "nothing", "$")
				}
				_ = conn.Close()
			}
		})
	}
	<-enough
	require.NoError(t, e.Close())
	wg.Wait()
	require.ErrorIs(t, <-served, ErrClosed)

	c := connect(t, open(t, Options{Dir: dir}))
	n := c.must(t, "HLEN", "left").text
	require.Equal(t, n, c.must(t, "HLEN", "right").text)
	require.Equal(t, n, c.must(t, "GET", "count").text)
}
