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
		get, set := []string{"GETRANGE", "rows", at, end}, []string{"SETRANGE", "rows", at, row}
		for _, words := range [][]string{get, set, get} {
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
var binaryLibrary = "#!lua name=binary\nlocal format = '" + rowFormat + "'\nlocal width = " + strconv.Itoa(rowBytes) + `
local function loop(name, setup, body)
  redis.register_function(name, function(keys, args)
    local a, b = setup()
    for i = 1, tonumber(args[1]) do body(keys, i, a, b) end
    return 1
  end)
end
local function row() return struct.pack(format, 1, 2, 300, 4, 500000, 6, 7, 8, 1e12, 1.5, 0, 2, 3, 4, 5), struct end
local function msg() return cmsgpack.pack(1, 2, 300, 4, 500000, 6, 7, 8, 1e12, 1.5, 0, 2, 3, 4, 5) end
local function tree() return {id = 'x', state = 'running', n = {1, 2, 3}, at = 1795188498438} end
loop('empty', row, function() end)
loop('unpack', row, function(_, _, s) local a, b, c, d, e, f, g, h, k, l, m, o, p, q, r = struct.unpack(format, s) end)
loop('pack', row, function(_, i) local s = struct.pack(format, 1, 2, 300, 4, i, 6, 7, 8, 1e12, 1.5, 0, 2, 3, 4, 5) end)
loop('msgunpack', msg, function(_, _, s) local a, b, c, d, e, f, g, h, k, l, m, o, p, q, r = cmsgpack.unpack(s) end)
loop('msgpack', msg, function(_, i) local s = cmsgpack.pack(1, 2, 300, 4, i, 6, 7, 8, 1e12, 1.5, 0, 2, 3, 4, 5) end)
loop('msgtable', tree, function(_, _, t) local u = cmsgpack.unpack(cmsgpack.pack(t)) end)
loop('json', tree, function(_, _, t) local u = cjson.decode(cjson.encode(t)) end)
loop('band', row, function(_, i) local n = bit.band(i, 255) end)
loop('row', row, function(keys, i)
  local at = i % 1000 * width
  local a, b, c, d, e, f, g, h, k, l, m, o, p, q, r = struct.unpack(format, redis.call('GETRANGE', keys[1], at, at + width - 1))
  redis.call('SETRANGE', keys[1], at, struct.pack(format, a, b, c, d, e + 1, f, g, h, k, l, m, o, p, q, r))
end)
`

// BenchmarkLibraries measures a call of a library function by a running function; row reads, changes and writes a row of
// a string of a thousand rows.
func BenchmarkLibraries(b *testing.B) {
	e := open(b, Options{Library: binaryLibrary})
	if _, _, err := e.do([]string{"SETRANGE", "rows", strconv.Itoa(1000*rowBytes - 1), "\x00"}); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"empty", "unpack", "pack", "msgunpack", "msgpack", "msgtable", "json", "band", "row"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			if _, err := e.fcall(context.Background(), name, []string{"rows"}, []string{strconv.Itoa(b.N)}); err != nil {
				b.Fatal(err)
			}
		})
	}
}
