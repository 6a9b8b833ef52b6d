package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

func client(t testing.TB, e *Engine, resp2 bool) rueidis.Client {
	t.Helper()
	o := e.ClientOption()
	o.AlwaysRESP2 = resp2
	return benchClient(t, o)
}

func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestClient uses the public client the way the layers above do, in both protocols.
func TestClient(t *testing.T) {
	for _, resp2 := range []bool{true, false} {
		t.Run(fmt.Sprint("resp2=", resp2), func(t *testing.T) {
			ctx := timeout(t)
			e := open(t, Options{})
			c := client(t, e, resp2)
			b := c.B()
			load := c.Do(ctx, b.FunctionLoad().FunctionCode(lib("echo", "return ARGV", "fail", "error('no')")).Build())
			require.NoError(t, load.Error())

			out, err := c.Do(ctx, b.Fcall().Function("echo").Numkeys(0).Arg("a", "b").Build()).AsStrSlice()
			require.NoError(t, err)
			require.Equal(t, []string{"a", "b"}, out)
			err = c.Do(ctx, b.Fcall().Function("fail").Numkeys(0).Build()).Error()
			require.ErrorContains(t, err, "user_function:3: no script: fail, on @user_function:3.")

			require.NoError(t, c.Do(ctx, b.Hset().Key("h").FieldValue().FieldValue("f", "v").Build()).Error())
			m, err := c.Do(ctx, b.Hgetall().Key("h").Build()).AsStrMap()
			require.NoError(t, err)
			require.Equal(t, map[string]string{"f": "v"}, m)
			require.NoError(t, c.Do(ctx, b.Zadd().Key("z").ScoreMember().ScoreMember(1.5, "m").Build()).Error())
			z, err := c.Do(ctx, b.Zrange().Key("z").Min("0").Max("-1").Withscores().Build()).AsZScores()
			require.NoError(t, err)
			require.Equal(t, []rueidis.ZScore{{Member: "m", Score: 1.5}}, z)
			require.True(t, rueidis.IsRedisNil(c.Do(ctx, b.Get().Key("none").Build()).Error()))

			// A transaction on a connection of its own.
			require.NoError(t, c.Dedicated(func(d rueidis.DedicatedClient) error {
				rs := d.DoMulti(ctx, d.B().Multi().Build(), d.B().Incr().Key("n").Build(),
					d.B().Fcall().Function("echo").Numkeys(0).Arg("x").Build(), d.B().Exec().Build())
				parts, err := rs[3].ToArray()
				require.NoError(t, err)
				require.Len(t, parts, 2)
				return err
			}))

			// Many callers share the connection.
			var wg sync.WaitGroup
			for w := range 16 {
				wg.Go(func() {
					for i := range 50 {
						want := fmt.Sprint(w, "-", i)
						got, err := c.Do(ctx, c.B().Fcall().Function("echo").Numkeys(0).Arg(want).Build()).AsStrSlice()
						if err != nil || got[0] != want {
							t.Error(got, err)
						}
					}
				})
			}
			wg.Wait()

			// A big value travels in pieces.
			big := strings.Repeat("x", 3<<20)
			require.NoError(t, c.Do(ctx, b.Set().Key("big").Value(big).Build()).Error())
			got, err := c.Do(ctx, b.Get().Key("big").Build()).ToString()
			require.NoError(t, err)
			require.Equal(t, big, got)
		})
	}
}

// TestExpiry moves the clock itself.
func TestExpiry(t *testing.T) {
	var ms atomic.Int64
	ms.Store(1_800_000_000_000)
	e := open(t, Options{
		Clock: func() time.Time { return time.UnixMilli(ms.Load()) },
		Library: lib("frozen", `
			local a = redis.call('TIME')
			for i = 1, 1000 do redis.call('GET', 'x') end
			local b = redis.call('TIME')
			redis.call('SET', 'past', '1', 'PXAT', 5)
			return {a[1] == b[1] and a[2] == b[2] and 1 or 0, redis.call('EXISTS', 'past')}`),
	})
	c := connect(t, e)
	c.must(t, "SET", "k", "v", "PX", "100")
	c.must(t, "HSET", "h", "f", "v")
	c.must(t, "PEXPIRE", "h", "200")
	require.Equal(t, ":100", c.must(t, "PTTL", "k").String())
	ms.Add(100)
	require.Equal(t, "v", c.must(t, "GET", "k").text)
	ms.Add(1)
	require.True(t, c.must(t, "GET", "k").null)
	require.Equal(t, ":99", c.must(t, "PTTL", "h").String())
	c.must(t, "PEXPIRE", "h", "300")
	ms.Add(250)
	require.Equal(t, ":1", c.must(t, "EXISTS", "h").String())
	c.must(t, "PERSIST", "h")
	ms.Add(1000)
	require.Equal(t, ":1", c.must(t, "DBSIZE").String())
	require.Equal(t, "*[:1 :0]", c.must(t, "FCALL", "frozen", "0").String())
}

// TestServe opens the engine to sockets.
func TestServe(t *testing.T) {
	e := open(t, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, l) }()
	c := connectTCP(t, l.Addr().String())
	require.Equal(t, "+OK", c.must(t, "SET", "k", "v").String())
	sub := connectTCP(t, l.Addr().String())
	sub.must(t, "SUBSCRIBE", "ch")
	require.Equal(t, ":1", c.must(t, "PUBLISH", "ch", "m").String())
	v, err := sub.read()
	require.NoError(t, err)
	require.Equal(t, `*["message" "ch" "m"]`, v.String())
	// Inline commands, QUIT, and a protocol error that ends the connection after its reason.
	raw := connectTCP(t, l.Addr().String())
	_, err = raw.conn.Write([]byte("ECHO \"hi\"\r\n\r\nQUIT\r\n"))
	require.NoError(t, err)
	v, err = raw.read()
	require.NoError(t, err)
	require.Equal(t, "hi", v.text)
	v, err = raw.read()
	require.NoError(t, err)
	require.Equal(t, "+OK", v.String())
	_, err = raw.read()
	require.Error(t, err)
	bad := connectTCP(t, l.Addr().String())
	_, err = bad.conn.Write([]byte("*1\r\n:5\r\n"))
	require.NoError(t, err)
	v, err = bad.read()
	require.NoError(t, err)
	require.Contains(t, v.text, "Protocol error: expected '$', got ':'")
	_, err = bad.read()
	require.Error(t, err)
	stop()
	require.NoError(t, <-done)
	_, err = c.do("PING")
	require.Error(t, err)

	l, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { done <- e.Serve(context.Background(), l) }()
	connectTCP(t, l.Addr().String()).must(t, "PING")
	require.NoError(t, e.Close())
	require.ErrorIs(t, <-done, ErrClosed)
	require.ErrorIs(t, e.Serve(context.Background(), l), ErrClosed)
}

// A page in a browser can send a request to the port; none of its lines runs as a command.
func TestServeRefusesHTTP(t *testing.T) {
	t.Parallel()
	e := open(t, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = e.Serve(t.Context(), l) }()
	for _, request := range []string{
		"POST / HTTP/1.1\r\n\r\nSET stolen 1\r\n", "GET /?SET HTTP/1.1\r\nSET stolen 1\r\n", "Host: x\r\nSET stolen 1\r\n",
		"options * HTTP/1.1\r\nSET stolen 1\r\n",
	} {
		c := connectTCP(t, l.Addr().String())
		_, err = c.conn.Write([]byte(request))
		require.NoError(t, err)
		v, err := c.read()
		require.NoError(t, err)
		require.Contains(t, v.text, "speaks no HTTP", request)
		_, err = c.read()
		require.Error(t, err, request)
	}
	c := connectTCP(t, l.Addr().String())
	_, err = c.conn.Write([]byte("GET stolen\r\n"))
	require.NoError(t, err)
	v, err := c.read()
	require.NoError(t, err)
	require.True(t, v.null)
}

func TestClose(t *testing.T) {
	e := open(t, Options{Library: lib("f", "return 1")})
	c := connect(t, e)
	require.NoError(t, c.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$"))
	read := make(chan error, 1)
	go func() {
		_, err := c.read()
		read <- err
	}()
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	<-read
	_, err := c.do("PING")
	require.Error(t, err)
	_, err = e.fcall(context.Background(), "f", nil, nil)
	require.ErrorIs(t, err, ErrClosed)
	_, err = rueidis.NewClient(e.ClientOption())
	require.ErrorIs(t, err, ErrClosed)
	_, err = Open(context.Background(), Options{Library: "#!lua name=x\nfoo()"})
	require.ErrorContains(t, err, "nonexistent global variable 'foo'")
	_, err = Open(context.Background(), Options{Fsync: 9})
	require.Error(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = e.fcall(ctx, "f", nil, nil)
	require.ErrorIs(t, err, context.Canceled)
	var re *resp.ReplyError
	e = open(t, Options{})
	_, err = e.fcall(context.Background(), "f", nil, nil)
	require.True(t, errors.As(err, &re))
	require.Equal(t, "ERR Function not found", re.Text)
}

func TestReadDeadline(t *testing.T) {
	e := open(t, Options{})
	c := connect(t, e)
	require.NoError(t, c.conn.SetDeadline(time.Now().Add(5*time.Millisecond)))
	_, err := c.read()
	var ne net.Error
	require.True(t, errors.As(err, &ne) && ne.Timeout())
	require.NoError(t, c.conn.SetDeadline(time.Time{}))
	// A deadline set while a read waits ends it.
	read := make(chan error, 1)
	go func() {
		_, err := c.read()
		read <- err
	}()
	require.NoError(t, c.conn.SetReadDeadline(time.Now()))
	require.Error(t, <-read)
}

// TestScan changes a set during a scan: the scan returns each permanent member exactly once.
func TestScan(t *testing.T) {
	e := open(t, Options{})
	c := connect(t, e)
	for i := range 1000 {
		c.must(t, "SADD", "s", strconv.Itoa(i))
		c.must(t, "ZADD", "z", strconv.Itoa(i), strconv.Itoa(i))
	}
	for _, cmd := range []string{"SSCAN", "ZSCAN"} {
		seen := map[string]int{}
		cursor := "0"
		for i := 0; ; i++ {
			v := c.must(t, cmd, strings.ToLower(cmd[:1]), cursor, "COUNT", "7")
			for j, m := range v.elems[1].texts() {
				if cmd == "SSCAN" || j%2 == 0 {
					seen[m]++
				}
			}
			if cursor = v.elems[0].text; cursor == "0" {
				break
			}
			for k := range 5 { // odd members leave, in any order
				m := strconv.Itoa((i*37+k*11)%500*2 + 1)
				c.must(t, "SREM", "s", m)
				c.must(t, "ZREM", "z", m)
			}
			c.must(t, "SADD", "s", fmt.Sprint("new", i))
		}
		for i := 0; i < 1000; i += 2 {
			require.Equal(t, 1, seen[strconv.Itoa(i)], "%s %d", cmd, i)
		}
	}
}

// TestChunks delivers the same requests in pieces of every size.
func TestChunks(t *testing.T) {
	var stream []byte
	var want []string
	for i := range 40 {
		value := strings.Repeat("v", i*7) + "\r\n*3\r\n$"
		for _, words := range [][]string{{"SET", "k", value}, {"GET", "k"}} {
			stream = resp.AppendHeader(stream, '*', len(words))
			for _, w := range words {
				stream = resp.AppendBulk(stream, w)
			}
		}
		stream = append(stream, "PING\r\n*0\r\n"...)
		want = append(want, "+OK", strconv.Quote(value), "+PONG")
	}
	for size := 1; size < 400; size = size*3/2 + 1 {
		c := connect(t, open(t, Options{}))
		for rest := stream; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, err := c.conn.Write(rest[:min(size, len(rest))])
			require.NoError(t, err)
		}
		for i, w := range want {
			v, err := c.read()
			require.NoError(t, err)
			require.Equal(t, w, v.String(), "reply %d in pieces of %d", i, size)
		}
	}
}

func TestInfo(t *testing.T) {
	e := open(t, Options{Library: lib("f", "return redis.call('GET', 'k')")})
	c := connect(t, e)
	c.must(t, "SET", "k", "v")
	c.must(t, "FCALL", "f", "0")
	require.Regexp(t, `cmdstat_fcall:calls=1,usec=\d+,usec_per_call=\d+\.\d\d,`, c.must(t, "INFO", "commandstats").text)
	require.Contains(t, c.must(t, "INFO", "commandstats").text, "cmdstat_get:calls=1,")
	for _, want := range []string{"redis_version:", "used_memory:", "connected_clients:1", "db0:keys=1,expires=0", "aof_enabled:0"} {
		require.Contains(t, c.must(t, "INFO").text, want)
	}
	require.Regexp(t, `\r\nrun_id:[0-9a-f]{40}\r\n`, c.must(t, "INFO", "server").text)
	require.Equal(t, `*["master" :0 *[]]`, c.must(t, "ROLE").String())
	require.Equal(t, byte(':'), c.must(t, "MEMORY", "USAGE", "k").kind)
	require.Equal(t, byte(':'), c.must(t, "COMMAND", "COUNT").kind)
	require.Equal(t, `*["appendonly" "no"]`, c.must(t, "CONFIG", "GET", "appendonly").String())
	require.Equal(t, "+OK", c.must(t, "CONFIG", "RESETSTAT").String())
	require.NotContains(t, c.must(t, "INFO", "commandstats").text, "fcall")

	require.True(t, c.must(t, "DUMP", "none").null)
	before := c.must(t, "DUMP", "k")
	c.must(t, "PEXPIREAT", "k", "9999999999999")
	require.Equal(t, before, c.must(t, "DUMP", "k"))
	c.must(t, "APPEND", "k", "x")
	require.NotEqual(t, before, c.must(t, "DUMP", "k"))
}
