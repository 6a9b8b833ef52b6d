package embedded

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// rowFormat and rowBytes are a row of fifteen numbers, as a function keeps many of them in one long string.
const (
	rowFormat = "<BBHHIIIIdddddII"
	rowBytes  = 70
)

// BenchmarkStringRanges reads and writes 64 bytes in the middle of strings of several sizes: neither time nor memory
// depends on the size.
func BenchmarkStringRanges(b *testing.B) {
	for _, size := range []int{6_400, 640_000, 64_000_000} {
		e := open(b, Options{})
		run := func(words ...string) {
			if reply, _, err := e.do(words); err != nil || reply.Err() != nil {
				b.Fatal(err, reply.Err())
			}
		}
		run("SET", "rows", strings.Repeat("r", size))
		at, row := strconv.Itoa(size/2), strings.Repeat("w", 64)
		end := strconv.Itoa(size/2 + 63)
		for _, words := range [][]string{{"GETRANGE", "rows", at, end}, {"SETRANGE", "rows", at, row}, {"GETRANGE", "rows", at, end}} {
			run(words...) // the first write copies the value
			b.Run(fmt.Sprintf("%s/%d", words[0], size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					run(words...)
				}
			})
		}
	}
}

// binaryLibrary has one loop for each library function that is measured.
var binaryLibrary = lib(
	"unpack", "local s, n = struct.pack('"+rowFormat+"', 1, 2, 300, 4, 500000, 6, 7, 8, 1e12, 1.5, 0, 2, 3, 4, 5), 0 "+
		"for i = 1, tonumber(ARGV[1]) do local a, b, c, d, e, f, g, h, k, l, m, o, p, q, r = struct.unpack('"+rowFormat+"', s) n = n + r end return n",
	"pack", "local s for i = 1, tonumber(ARGV[1]) do s = struct.pack('"+rowFormat+"', 1, 2, 300, 4, i, 6, 7, 8, 1e12, 1.5, 0, 2, 3, 4, 5) end return s",
	"msgpack", "local s for i = 1, tonumber(ARGV[1]) do s = cmsgpack.pack(1, 2, 300, 4, i, 6, 7, 8, 1e12, 1.5, 0, 2, 3, 4, 5) end return s",
	"msgunpack", "local s, n = cmsgpack.pack(1, 2, 300, 4, 500000, 6, 7, 8, 1e12, 1.5, 0, 2, 3, 4, 5), 0 "+
		"for i = 1, tonumber(ARGV[1]) do local a, b, c, d, e, f, g, h, k, l, m, o, p, q, r = cmsgpack.unpack(s) n = n + r end return n",
	"msgtable", "local t, n = {id = 'x', state = 'running', n = {1, 2, 3}, at = 1795188498438}, 0 "+
		"for i = 1, tonumber(ARGV[1]) do n = n + cmsgpack.unpack(cmsgpack.pack(t)).n[3] end return n",
	"json", "local t, n = {id = 'x', state = 'running', n = {1, 2, 3}, at = 1795188498438}, 0 "+
		"for i = 1, tonumber(ARGV[1]) do n = n + cjson.decode(cjson.encode(t)).n[3] end return n",
	"band", "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + bit.band(i, 255) end return n",
	"empty", "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + select('#', i) end return n",
	"row", "local f, n = '"+rowFormat+"', 0 for i = 0, tonumber(ARGV[1]) - 1 do local at = i % 1000 * "+strconv.Itoa(rowBytes)+" "+
		"local a, b, c, d, e, g, h, k, l, m, o, p, q, r, s = struct.unpack(f, redis.call('GETRANGE', KEYS[1], at, at + "+strconv.Itoa(rowBytes-1)+")) "+
		"redis.call('SETRANGE', KEYS[1], at, struct.pack(f, a, b, c, d, e + 1, g, h, k, l, m, o, p, q, r, s)) end return 1",
)

// BenchmarkLibraries measures a call of a library function by a running function; row reads, changes and writes a row of
// a string of a thousand rows.
func BenchmarkLibraries(b *testing.B) {
	e := open(b, Options{Library: binaryLibrary})
	if _, _, err := e.do([]string{"SETRANGE", "rows", strconv.Itoa(1000*rowBytes - 1), "\x00"}); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"unpack", "pack", "msgunpack", "msgpack", "msgtable", "json", "band", "empty", "row"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			if _, err := e.FCall(context.Background(), name, []string{"rows"}, []string{strconv.Itoa(b.N)}); err != nil {
				b.Fatal(err)
			}
		})
	}
}
