package embedded

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/aof"
)

// inPlaceLibrary reads a string before and after it is changed in place.
var inPlaceLibrary = lib("change", `
	local before = redis.call('GET', KEYS[1])
	local part = redis.call('GETRANGE', KEYS[1], 0, 3)
	redis.call('SETRANGE', KEYS[1], 1, 'XY')
	local middle = redis.call('GET', KEYS[1])
	redis.call('APPEND', KEYS[1], '!')
	redis.call('SETRANGE', KEYS[1], 0, 'Z')
	return {before, part, middle, redis.call('GET', KEYS[1])}`,
	"set", "redis.call('SETRANGE', KEYS[1], ARGV[1], ARGV[2]) redis.call('APPEND', KEYS[1], ARGV[3]) return redis.call('STRLEN', KEYS[1])")

// TestInPlaceChanges_KeepCopies changes strings in place: values that were read or copied before stay unchanged, also
// within a function and a transaction.
func TestInPlaceChanges_KeepCopies(t *testing.T) {
	e := open(t, Options{Library: inPlaceLibrary})
	c := connect(t, e)
	c.must(t, "SET", "k", "abcdef")
	require.Equal(t, `*["abcdef" "abcd" "aXYdef" "ZXYdef!"]`, c.must(t, "FCALL", "change", "1", "k").String())
	require.Equal(t, `*["ZXYdef!" "ZXYd" "ZXYdef!" "ZXYdef!!"]`, c.must(t, "FCALL", "change", "1", "k").String())
	c.must(t, "MULTI")
	c.must(t, "GET", "k")
	c.must(t, "COPY", "k", "copy")
	c.must(t, "SETRANGE", "k", "0", "1234")
	c.must(t, "MGET", "k", "copy")
	c.must(t, "SETRANGE", "copy", "2", "##")
	c.must(t, "RENAME", "k", "moved")
	c.must(t, "SETRANGE", "moved", "0", "5")
	c.must(t, "MGET", "k", "moved", "copy")
	require.Equal(t, `*["ZXYdef!!" :1 :8 *["1234ef!!" "ZXYdef!!"] :8 +OK :8 *[$null "5234ef!!" "ZX##ef!!"]]`, c.must(t, "EXEC").String())
	require.Equal(t, "+string", c.must(t, "TYPE", "moved").String())
	c.must(t, "SETRANGE", "long", "999999", "x")
	n, err := strconv.Atoi(strings.TrimPrefix(c.must(t, "MEMORY", "USAGE", "long").String(), ":"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, 1_000_000)
	before := c.must(t, "DUMP", "moved")
	require.Equal(t, before, c.must(t, "DUMP", "moved"))
	c.must(t, "SETRANGE", "moved", "0", "6")
	require.Equal(t, "raw", c.must(t, "OBJECT", "ENCODING", "moved").text)
	require.NotEqual(t, before, c.must(t, "DUMP", "moved"))
}

// TestSetRangeLimits extends strings up to the maximum of a server. A refused command stores nothing.
func TestSetRangeLimits(t *testing.T) {
	c := connect(t, open(t, Options{}))
	const tooLong = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	for _, at := range []string{"536870912", "9223372036854775807"} {
		require.Equal(t, tooLong, c.must(t, "SETRANGE", "k", at, "x").String())
		require.Equal(t, ":0", c.must(t, "SETRANGE", "k", at, "").String())
	}
	require.Equal(t, tooLong, c.must(t, "SETRANGE", "k", "536870911", "xy").String())
	require.Equal(t, ":0", c.must(t, "EXISTS", "k").String())
}

// TestRangesDoNotCopy reads and writes parts of a long string: the memory that this takes does not depend on its length.
// It does not run in parallel, since others would add to the memory that it counts.
func TestRangesDoNotCopy(t *testing.T) {
	const size, calls = 640_000, 200
	e := open(t, Options{})
	run := func(words ...string) {
		reply, _, err := e.do(words)
		require.NoError(t, err)
		require.NoError(t, reply.Err())
	}
	at, end, row := strconv.Itoa(size/2), strconv.Itoa(size/2+63), strings.Repeat("w", 64)
	run("SET", "rows", strings.Repeat("r", size))
	run("SETRANGE", "rows", at, row)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		run("SETRANGE", "rows", at, row)
		run("GETRANGE", "rows", at, end)
		run("STRLEN", "rows")
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size), "%d calls took as much as a single copy", 3*calls)
}

// TestInPlaceChanges_SurviveReload changes strings in place in a directory: they are the same after a reload from the
// log, or from a snapshot and the log after it.
func TestInPlaceChanges_SurviveReload(t *testing.T) {
	for _, limit := range []int64{1 << 40, 4 << 10} {
		o := Options{Dir: t.TempDir(), Library: inPlaceLibrary, Fsync: FsyncNever, LogLimit: limit}
		e := open(t, o)
		c := connect(t, e)
		c.must(t, "SETRANGE", "rows", "9999", "end")
		for i := range 300 {
			c.must(t, "FCALL", "set", "1", "rows", strconv.Itoa(i*30), "row "+strconv.Itoa(i), strconv.Itoa(i))
		}
		want := c.must(t, "GET", "rows")
		require.NoError(t, e.Close())
		require.Equal(t, want, connect(t, open(t, o)).must(t, "GET", "rows"))
	}
}

// TestInPlaceChanges_RefusedCallIsUndone refuses a call that has changed a string in place: the string is as before once calls are served
// again.
func TestInPlaceChanges_RefusedCallIsUndone(t *testing.T) {
	for nth := 2; nth <= 4; nth++ {
		d := &badDisk{ops: []aof.Op{aof.OpWrite}, lasts: true}
		e := open(t, Options{Dir: memoryDir(t), Library: inPlaceLibrary, fault: d.fault, retryPause: time.Millisecond})
		d.mu.Lock()
		d.nth = d.count + nth
		d.mu.Unlock()
		var want string
		for i := 0; ; i++ {
			require.Less(t, i, 10)
			_, err := e.fcall(context.Background(), "set", []string{"k"}, []string{"3", "row" + strconv.Itoa(i), "+"})
			if err != nil {
				require.ErrorContains(t, err, "MISCONF ")
				break
			}
			reply, _, err := e.do([]string{"GETRANGE", "k", "0", "-1"})
			require.NoError(t, err)
			want = reply.Str
		}
		d.heal()
		serves(t, e)
		require.Equal(t, want, connect(t, e).must(t, "GET", "k").text, "write %d failed", nth)
	}
}

// TestBlockingReadOfSeveralStreams waits for whichever of several streams grows first.
func TestBlockingReadOfSeveralStreams(t *testing.T) {
	e := open(t, Options{})
	c, w := connect(t, e), connect(t, e)
	w.must(t, "XADD", "a", "1-1", "f", "old")
	for i, key := range []string{"b", "c", "a"} {
		require.NoError(t, c.send("XREAD", "COUNT", "10", "BLOCK", "0", "STREAMS", "a", "b", "c", "$", "$", "$"))
		require.Eventually(t, func() bool {
			e.gate.Lock()
			defer e.gate.Unlock()
			return len(e.blocked) == 3
		}, 5*time.Minute, time.Millisecond)
		w.must(t, "XADD", "other", "*", "f", "v")
		id := strconv.Itoa(i+2) + "-1"
		w.must(t, "XADD", key, id, "f", "v")
		v, err := c.read()
		require.NoError(t, err)
		require.Equal(t, `*[*["`+key+`" *[*["`+id+`" *["f" "v"]]]]]`, v.String())
		e.gate.Lock()
		require.Empty(t, e.blocked)
		e.gate.Unlock()
	}
	require.Equal(t, `*[*["b" *[*["2-1" *["f" "v"]]]] *["c" *[*["3-1" *["f" "v"]]]]]`,
		c.must(t, "XREAD", "BLOCK", "0", "STREAMS", "b", "c", "0", "0").String())
}
