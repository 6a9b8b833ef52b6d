package embedded

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// gen produces random commands over few keys, so that types collide and collections fill and empty.
type gen struct{ *rand.Rand }

func (g gen) pick(items ...string) string { return items[g.IntN(len(items))] }
func (g gen) key() string                 { return "k" + strconv.Itoa(g.IntN(12)) }
func (g gen) keyOf(typ string) string {
	if g.IntN(25) == 0 {
		return g.key()
	}
	return typ + strconv.Itoa(g.IntN(3))
}
func (g gen) member() string { return "m" + strconv.Itoa(g.IntN(30)) }
func (g gen) val() string {
	return g.pick("", "a", "hello world", "10", "-3", "007", "9223372036854775807", "x\r\ny\x00z", "3.5", strconv.Itoa(g.IntN(1000)), strings.Repeat("v", g.IntN(300)))
}
func (g gen) num() string {
	return g.pick("0", "1", "-1", "2", "5", "-5", "100", "1e3", "abc", "", "9223372036854775807", "-9223372036854775808", strconv.Itoa(g.IntN(50)-25))
}
func (g gen) score() string {
	return g.pick("0", "1", "2.5", "-7.25", "inf", "-inf", "1795188498438", "-3204811592256", "nan", "x", strconv.Itoa(g.IntN(20)), "0x10", "1e3")
}
func (g gen) bound() string {
	return g.pick("-inf", "+inf", "(1", "3", "(5", "10", "(2.5", "0", "x", "1795188498438")
}
func (g gen) idx() string { return strconv.Itoa(g.IntN(14) - 7) }

func (g gen) many(min, max int, item func() string) []string {
	n := min + g.IntN(max-min+1)
	out := make([]string, n)
	for i := range out {
		out[i] = item()
	}
	return out
}

func (g gen) maybe(words ...string) []string {
	if g.IntN(3) == 0 {
		return words
	}
	return nil
}

func cat(first string, rest ...[]string) []string {
	out := strings.Fields(first)
	for _, r := range rest {
		out = append(out, r...)
	}
	return out
}

const far = 4102444800000 // a deadline that no test lives to see, Unix ms

func (g gen) strings() []string {
	k := []string{g.keyOf("str")}
	at := strconv.Itoa(far + g.IntN(1000))
	switch g.IntN(20) {
	case 16, 17:
		return cat("SETRANGE", k, []string{strconv.Itoa(g.IntN(80) - 2), g.val()})
	case 18:
		return cat("GETRANGE", k, []string{g.idx(), g.idx()})
	case 0, 1:
		return cat("GET", k)
	case 2:
		return cat("SET", k, []string{g.val()}, g.maybe("NX"), g.maybe("XX"), g.maybe("GET"), g.maybe("PXAT", at), g.maybe("KEEPTTL"), g.maybe("EXAT", g.pick("4102444800", "x", "0")))
	case 3:
		return cat("SET", k, []string{g.val()})
	case 4:
		return cat("SETNX", k, []string{g.val()})
	case 5:
		return cat("MGET", g.many(1, 4, func() string { return g.keyOf("str") }))
	case 6:
		return cat("MSET", g.many(1, 6, func() string { return g.keyOf("str") }))
	case 7:
		return cat(g.pick("INCR", "DECR"), k)
	case 8, 9:
		return cat(g.pick("INCRBY", "DECRBY"), k, []string{g.num()})
	case 10:
		return cat("STRLEN", k)
	case 11:
		return cat("APPEND", k, []string{g.val()})
	case 12:
		return cat("GETDEL", k)
	case 13:
		return cat("GETSET", k, []string{g.val()})
	case 14:
		return cat("SET", k, []string{g.pick("1", "10", "2.5")}, []string{g.pick("PX", "EX", "PXAT", "FOO"), g.pick("0", "-1", "x", "9223372036854775807")})
	}
	return cat("SET", k, []string{strconv.Itoa(g.IntN(100))})
}

func (g gen) keys() []string {
	any := func() string { return g.pick("str", "hash", "set", "list", "zset", "st") + strconv.Itoa(g.IntN(3)) }
	k := []string{any()}
	at := strconv.Itoa(far + g.IntN(1000))
	switch g.IntN(16) {
	case 0:
		return cat(g.pick("DEL", "UNLINK"), g.many(1, 2, any))
	case 1:
		return cat("EXISTS", g.many(1, 4, any))
	case 2:
		return cat("TYPE", k)
	case 3, 4:
		return cat("PEXPIREAT", k, []string{g.pick(at, at, at, "x", "1")}, g.maybe("NX"), g.maybe("GT"), g.maybe("LT"), g.maybe("XX"))
	case 5:
		return cat("EXPIREAT", k, []string{"4102444800"})
	case 6:
		return cat(g.pick("PEXPIRE", "EXPIRE"), k, []string{g.pick("0", "-5", "x", "9223372036854775807")})
	case 7:
		return cat(g.pick("PEXPIRETIME", "EXPIRETIME"), k)
	case 8:
		return cat("PERSIST", k)
	case 9:
		return cat("KEYS", []string{g.pick("*", "str*", "?et1", "[hl]*", "zset[^1]", "nothing", "s*[0-1]", "\\str1")})
	case 10:
		return []string{"SCAN", "0", "COUNT", "1000", "MATCH", g.pick("*", "l*"), "TYPE", g.pick("list", "hash", "string")}
	case 11, 12:
		return cat("COPY", k, []string{any()}, g.maybe("REPLACE"))
	case 13:
		return cat("RENAME", k, []string{any()})
	case 14:
		return []string{"DBSIZE"}
	}
	return cat(g.pick("FOO", "GET", "HSET a", "ECHO hi", "PING", "PING x", "SELECT 0", "SELECT 1", "TTL nokey", "XREAD STREAMS a", "AUTH x"))
}

func (g gen) hashes() []string {
	k := []string{g.keyOf("hash")}
	f := []string{g.member()}
	switch g.IntN(16) {
	case 0, 1, 2:
		return cat("HSET", k, g.many(1, 6, g.member))
	case 3:
		return cat("HSETNX", k, f, []string{g.val()})
	case 4, 5:
		return cat("HGET", k, f)
	case 6:
		return cat("HMGET", k, g.many(1, 4, g.member))
	case 7:
		return cat("HGETALL", k)
	case 8, 9:
		return cat("HDEL", k, g.many(1, 8, g.member))
	case 10:
		return cat(g.pick("HLEN", "HKEYS", "HVALS"), k)
	case 11:
		return cat(g.pick("HEXISTS", "HSTRLEN"), k, f)
	case 12, 13:
		return cat("HINCRBY", k, []string{g.pick("n1", "n2", g.member())}, []string{g.num()})
	case 14:
		return cat("HINCRBYFLOAT", k, []string{g.pick("f1", "f2", g.member())}, []string{g.pick("1", "0.5", "-2.25", "0.1", "3e2", "1.1", "x", "1e10", "-0.30000001", "0")})
	}
	return cat("HSCAN", k, []string{"0", "COUNT", "1000"}, g.maybe("MATCH", "m1*"))
}

func (g gen) sets() []string {
	k := []string{g.keyOf("set")}
	set := func() string { return g.keyOf("set") }
	switch g.IntN(14) {
	case 0, 1, 2:
		return cat("SADD", k, g.many(1, 5, g.member))
	case 3, 4:
		return cat("SREM", k, g.many(1, 6, g.member))
	case 5:
		return cat("SISMEMBER", k, []string{g.member()})
	case 6:
		return cat("SMISMEMBER", k, g.many(1, 4, g.member))
	case 7:
		return cat("SMEMBERS", k)
	case 8:
		return cat("SCARD", k)
	case 9:
		return cat(g.pick("SINTER", "SUNION", "SDIFF"), g.many(1, 3, set))
	case 10:
		return cat(g.pick("SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE"), k, g.many(1, 3, set))
	case 11:
		return cat("SSCAN", k, []string{g.pick("0", "0", "0", "x"), "COUNT", "1000"}, g.maybe("MATCH", "*2"))
	case 12:
		return cat("SPOP", k, []string{g.pick("1000", "0", "-1", "x")})
	}
	return cat("SMOVE", k, []string{set()}, []string{g.member()})
}

func (g gen) lists() []string {
	k := []string{g.keyOf("list")}
	switch g.IntN(13) {
	case 0, 1:
		return cat(g.pick("LPUSH", "RPUSH", "LPUSHX", "RPUSHX"), k, g.many(1, 5, g.member))
	case 2, 3:
		return cat(g.pick("LPOP", "RPOP"), k, g.maybe(g.pick("0", "1", "3", "-1", "x")))
	case 4:
		return cat("LLEN", k)
	case 5, 6:
		return cat("LRANGE", k, []string{g.idx(), g.idx()})
	case 7:
		return cat("LREM", k, []string{g.pick("0", "1", "-2", "x"), g.member()})
	case 8:
		return cat("LINDEX", k, []string{g.idx()})
	case 9:
		return cat("LTRIM", k, []string{g.pick("0", "1", "-6"), g.pick("-1", "6", "-2")})
	case 10:
		return cat("LPOS", k, []string{g.member()})
	case 11:
		return cat("LSET", k, []string{g.idx(), g.member()})
	}
	return cat("LMOVE", k, []string{g.keyOf("list")}, []string{g.pick("LEFT", "RIGHT", "UP"), g.pick("LEFT", "RIGHT")})
}

func (g gen) zsets() []string {
	k := []string{g.keyOf("zset")}
	switch g.IntN(22) {
	case 0, 1, 2, 3:
		return cat("ZADD", k, g.maybe("NX"), g.maybe("XX"), g.maybe("GT"), g.maybe("LT"), g.maybe("CH"), g.maybe("INCR"), []string{g.score(), g.member()})
	case 4, 5:
		pairs := []string{}
		for range 1 + g.IntN(4) {
			pairs = append(pairs, strconv.Itoa(g.IntN(20)), g.member())
		}
		return cat("ZADD", k, pairs)
	case 6:
		return cat("ZREM", k, g.many(1, 4, g.member))
	case 7:
		return cat("ZSCORE", k, []string{g.member()})
	case 8:
		return cat("ZMSCORE", k, g.many(1, 3, g.member))
	case 9:
		return cat("ZCARD", k)
	case 10:
		return cat("ZCOUNT", k, []string{g.bound(), g.bound()})
	case 11, 12:
		return cat("ZRANGE", k, []string{g.idx(), g.idx()}, g.maybe("REV"), g.maybe("WITHSCORES"))
	case 13, 14:
		return cat("ZRANGE", k, []string{g.bound(), g.bound(), "BYSCORE"}, g.maybe("REV"), g.maybe("LIMIT", g.idx(), g.idx()), g.maybe("WITHSCORES"))
	case 15:
		return cat(g.pick("ZRANGEBYSCORE", "ZREVRANGEBYSCORE"), k, []string{g.bound(), g.bound()}, g.maybe("WITHSCORES"), g.maybe("LIMIT", g.idx(), g.idx()))
	case 16:
		return cat("ZREVRANGE", k, []string{g.idx(), g.idx()}, g.maybe("WITHSCORES"))
	case 17:
		return cat(g.pick("ZRANK", "ZREVRANK"), k, []string{g.member()})
	case 18:
		return cat(g.pick("ZPOPMIN", "ZPOPMAX"), k, g.maybe(g.pick("2", "0", "-1", "x")))
	case 19:
		return cat("ZINCRBY", k, []string{g.score(), g.member()})
	case 20:
		return cat("ZREMRANGEBYSCORE", k, []string{g.bound(), g.bound()})
	}
	return g.pick2(cat("ZREMRANGEBYRANK", k, []string{g.idx(), g.idx()}), cat("ZSCAN", k, []string{"0", "COUNT", "1000"}))
}

func (g gen) pick2(a, b []string) []string {
	if g.IntN(2) == 0 {
		return a
	}
	return b
}

// streams appends with growing ids; seq is the caller's counter.
func (g gen) streams(seq *int) []string {
	k := []string{g.keyOf("st")}
	id := func() string {
		return g.pick("-", "+", strconv.Itoa(g.IntN(*seq+2))+"-1", strconv.Itoa(g.IntN(*seq+2)), "x")
	}
	entry := func() []string {
		*seq++
		fields := []string{"event", g.pick("acquired", "renewed"), "ts", strconv.Itoa(1795188498438 + *seq)}
		if g.IntN(8) == 0 {
			fields = append(fields, "extra", g.val())
		}
		return cat("XADD", k, g.maybe(g.pick("NOMKSTREAM", "MAXLEN 5", "MAXLEN ~ 20", "MAXLEN ~ 0", "MAXLEN = 30", "MINID 10", "MINID ~ 60", "MAXLEN ~ 10 LIMIT 50")),
			[]string{g.pick(strconv.Itoa(*seq)+"-1", strconv.Itoa(*seq)+"-*", strconv.Itoa(*seq)+"-1", "0-0", "1-1", "bad")}, fields)
	}
	switch g.IntN(14) {
	case 0, 1, 2, 3, 4, 5, 6:
		c := entry()
		var flat []string
		for _, w := range c[:min(4, len(c))] {
			if strings.HasPrefix(w, "MAXLEN ") || strings.HasPrefix(w, "MINID ") {
				flat = append(flat, strings.Fields(w)...)
				continue
			}
			flat = append(flat, w)
		}
		return append(flat, c[min(4, len(c)):]...)
	case 7:
		return cat("XLEN", k)
	case 8, 9:
		return cat(g.pick("XRANGE", "XREVRANGE"), k, []string{id(), id()}, g.maybe("COUNT", g.pick("1", "5", "0", "-1", "x")))
	case 10:
		return cat("XREAD COUNT", []string{g.pick("1", "4", "0")}, []string{"STREAMS"}, k, []string{g.keyOf("st")}, []string{strconv.Itoa(g.IntN(*seq + 1)), g.pick("0", "$", "x")})
	case 11:
		return cat("XTRIM", k, strings.Fields(g.pick("MAXLEN 3", "MAXLEN ~ 10", "MINID 5", "MINID ~ 100", "MAXLEN -1", "FOO 1", "MAXLEN 10 LIMIT 3", "MAXLEN ~ 5 LIMIT 10")))
	case 12:
		return cat("XDEL", k, []string{strconv.Itoa(g.IntN(*seq+1)) + "-1"})
	}
	return cat("XADD", k, []string{"*", "odd"})
}

func (g gen) command(seq *int) []string {
	switch g.IntN(14) {
	case 0, 1:
		return g.strings()
	case 2, 3:
		return g.keys()
	case 4, 5:
		return g.hashes()
	case 6, 7:
		return g.sets()
	case 8:
		return g.lists()
	case 9, 10, 11:
		return g.zsets()
	}
	return g.streams(seq)
}

// seedOffset makes longer hunts possible: EMBEDDED_TEST_SEED=n go test …
var seedOffset = func() uint64 {
	n, _ := strconv.ParseUint(os.Getenv("EMBEDDED_TEST_SEED"), 10, 64)
	return n
}()

const callLibrary = `#!lua name=diff
redis.register_function('cmd', function(keys, args) return redis.call(unpack(args)) end)
redis.register_function('pcmd', function(keys, args) local r = redis.pcall(unpack(args)); if type(r) == 'table' and r.err then return {'err', r.err} end return r end)
redis.register_function('two', function(keys, args)
  redis.call('HINCRBY', keys[1], 'calls', 1)
  local r = redis.call(unpack(args))
  redis.call('HSET', keys[1], 'last', args[1])
  return r
end)
`

// TestDifferentialCommands runs the same random commands here and on a server, directly and through functions, and
// compares every reply and the data in the end.
func TestDifferentialCommands(t *testing.T) {
	addr := server(t)
	for i, mode := range []struct {
		name string
		resp string
	}{{"resp2", "2"}, {"resp3", "3"}} {
		t.Run(mode.name, func(t *testing.T) {
			seed := uint64(20260101+i) + seedOffset
			steps := 6000
			if testing.Short() {
				steps = 1000
			}
			theirs := connectTCP(t, addr)
			ours := connect(t, open(t, Options{}))
			for _, c := range []*rawClient{ours, theirs} {
				c.must(t, "FLUSHALL")
				c.must(t, "HELLO", mode.resp)
				if v := c.must(t, "FUNCTION", "LOAD", "REPLACE", callLibrary); v.kind == '-' {
					t.Fatal(v)
				}
			}
			g := gen{rand.New(rand.NewPCG(seed, 7))}
			seq := 0
			for step := range steps {
				words := g.command(&seq)
				name := words[0]
				switch g.IntN(5) {
				case 0:
					words = append([]string{"FCALL", "cmd", "0"}, words...)
				case 1:
					words = append([]string{"FCALL", "pcmd", "0"}, words...)
				case 2:
					words = append([]string{"FCALL", "two", "1", "calls"}, words...)
				}
				want := unordered(name, theirs.must(t, words...)).String()
				got := unordered(name, ours.must(t, words...)).String()
				if got != want {
					t.Fatalf("seed %d step %d: %q\n got %s\nwant %s", seed, step, words, got, want)
				}
				if step%500 == 499 {
					compareDumps(t, ours, theirs)
				}
			}
			compareDumps(t, ours, theirs)
		})
	}
}

func compareDumps(t *testing.T, ours, theirs *rawClient) {
	t.Helper()
	want, got := theirs.dump(t), ours.dump(t)
	for i := 0; i < len(want) || i < len(got); i++ {
		w, g := "(absent)", "(absent)"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			t.Fatalf("data differs:\n got %s\nwant %s", g, w)
		}
	}
}

// TestDifferentialStreams fills streams with entries of many sizes and trims them approximately, which shows the node
// boundaries of both sides.
func TestDifferentialStreams(t *testing.T) {
	theirs := connectTCP(t, server(t))
	ours := connect(t, open(t, Options{}))
	g := gen{rand.New(rand.NewPCG(3, 3))}
	for round := range 30 {
		key := fmt.Sprint("s", round)
		bound := strconv.Itoa(g.IntN(300))
		size := []int{1, 10, 60, 130, 700, 5000}[round%6]
		for i := range 400 {
			fields := []string{"event", g.pick("a", "b"), "n", strconv.FormatInt(g.Int64()>>g.IntN(64), 10), "v", strings.Repeat("x", g.IntN(size+1))}
			if g.IntN(5) == 0 {
				fields = append(fields, "more", strconv.Itoa(i))
			}
			words := append([]string{"XADD", key, "MAXLEN", "~", bound, fmt.Sprintf("%d-%d", 1000+i*g.IntN(2)*1000+i, i+1)}, fields...)
			theirs.must(t, words...)
			ours.must(t, words...)
			if i%13 == 0 {
				want, got := theirs.must(t, "XLEN", key), ours.must(t, "XLEN", key)
				if want.String() != got.String() {
					t.Fatalf("round %d (bound %s, size %d) after %d entries: got %s, want %s", round, bound, size, i+1, got, want)
				}
			}
		}
	}
	compareDumps(t, ours, theirs)
}

// TestDifferentialSession compares the other features of a connection: transactions, subscriptions and their
// acknowledgements, and commands about the connection itself.
func TestDifferentialSession(t *testing.T) {
	addr := server(t)
	e := open(t, Options{Library: callLibrary})
	script := [][]string{
		{"MULTI"}, {"SET", "a", "1"}, {"INCR", "a"}, {"FCALL", "cmd", "0", "GET", "a"}, {"HGET", "a", "f"}, {"EXEC"},
		{"EXEC"}, {"DISCARD"}, {"MULTI"}, {"MULTI"}, {"NOSUCH"}, {"EXEC"}, {"GET", "a"},
		{"MULTI"}, {"GET"}, {"DISCARD"}, {"MULTI"}, {"EXEC"}, {"MULTI"}, {"FCALL", "nosuch", "0"}, {"XREAD", "BLOCK", "0", "STREAMS", "s", "$"}, {"EXEC"},
		{"UNSUBSCRIBE"}, {"PUNSUBSCRIBE"}, {"SUBSCRIBE", "c1"}, {"PSUBSCRIBE", "p*"}, {"SSUBSCRIBE", "s1"}, {"SUBSCRIBE", "c1"}, {"PING"}, {"PING", "x"}, {"GET", "a"},
		{"UNSUBSCRIBE", "nothing"}, {"UNSUBSCRIBE"}, {"PUNSUBSCRIBE", "p*"}, {"SUNSUBSCRIBE"}, {"GET", "a"}, {"PUBLISH", "c1", "x"}, {"PUBSUB", "NUMPAT"}, {"PUBSUB", "CHANNELS"},
		{"PUBSUB", "NUMSUB", "c1"}, {"CLIENT", "SETNAME", "me"}, {"CLIENT", "GETNAME"}, {"CLIENT", "NO-EVICT", "ON"}, {"SELECT", "0"}, {"SELECT", "x"}, {"SELECT", "5"},
		{"AUTH", "x"}, {"AUTH", "default", "x"}, {"AUTH", "who", "x"}, {"HELLO", "9"}, {"HELLO", "x"}, {"HELLO", "2", "FOO"}, {"ECHO"}, {"PING", "a", "b"}, {"CLUSTER", "SLOTS"},
		{"CONFIG", "GET", "appendonly"}, {"NOSUCH", "a", "b"}, {"RESET"}, {"PING"},
	}
	for _, resp := range []string{"2", "3"} {
		ours, theirs := connect(t, e), connectTCP(t, addr)
		for _, c := range []*rawClient{ours, theirs} {
			c.must(t, "HELLO", resp)
			c.must(t, "FUNCTION", "LOAD", "REPLACE", callLibrary)
		}
		for _, words := range script {
			want, got := unordered(words[0], theirs.must(t, words...)).String(), unordered(words[0], ours.must(t, words...)).String()
			if got != want {
				t.Errorf("RESP%s %q\n got %s\nwant %s", resp, words, got, want)
			}
		}
	}
}
