package embedded

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// onServers runs a test against each kind of server.
func onServers(t *testing.T, test func(t *testing.T, ours, theirs *rawClient)) {
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			ours, theirs := luaClientsOn(t, serverOf(t, kind))
			test(t, ours, theirs)
		})
	}
}

// compareLua evaluates source on both sides.
func compareLua(t *testing.T, ours, theirs *rawClient, source string, args ...string) {
	t.Helper()
	words := append([]string{"FCALL", "ev", "0", strings.ReplaceAll(source, "\n", " ")}, args...)
	want, got := comparable(theirs.must(t, words...)), comparable(ours.must(t, words...))
	if got != want {
		t.Errorf("%s %q\n got %.400s\nwant %.400s", strings.TrimPrefix(source, showLua), args, got, want)
	}
}

// showLua returns all results of args[2] onwards as exact text: the values that a function returns, or its error.
const showLua = `
local show
show = function(v, depth)
  if type(v) == 'number' then return string.format('%.17g', v) end
  if type(v) == 'string' then return 's:' .. v end
  if type(v) ~= 'table' then return tostring(v) end
  if depth > 40 then return '...' end
  local keys = {}
  for k, x in pairs(v) do keys[#keys + 1] = show(k, depth + 1) .. '=' .. show(x, depth + 1) end
  table.sort(keys)
  return '{' .. table.concat(keys, ',') .. '}'
end
local results = function(...)
  local out = {}
  for i = 1, select('#', ...) do out[i] = show((select(i, ...)), 1) end
  return out
end
`

var structTable = strings.Split(strings.TrimSpace(`
struct.pack()
struct.pack(nil)
struct.pack({})
struct.pack('')
struct.pack('i')
struct.pack('i', nil)
struct.pack('ii', 1)
struct.pack('i', 'x')
struct.pack('i', '12')
struct.pack('i', {})
struct.pack('i', true)
struct.pack('s')
struct.pack('s', {})
struct.pack('s', 12.5)
struct.pack('s', 'abc', 'more')
struct.pack('s', 'a\0b')
struct.pack('c3', 'ab')
struct.pack('c3', 'abcd')
struct.pack('c0', 'abcd')
struct.pack('c', 'abcd')
struct.pack('c', '')
struct.pack('ic3', 1, 'ab')
struct.pack('z', 1)
struct.pack('iz', 1)
struct.pack('i2z')
struct.pack(5)
struct.pack('b4', 1)
struct.pack('i3', 66051)
struct.pack('i0', 5)
struct.pack('>i16', -2)
struct.pack('<i32', 2)
struct.pack('i33', 2)
struct.pack('i99999999999', 2)
struct.pack('c99999999999', 'x')
struct.pack('!3i', 1)
struct.pack('!0i', 1)
struct.pack('!99999999999i', 1)
struct.pack('!bd', 1, 2)
struct.pack('!4bd', 1, 2)
struct.pack('!bi3b', 1, 2, 3)
struct.pack('!16bi16', 1, 2)
struct.pack('!bc3h', 1, 'abc', 2)
struct.pack('!bsh', 1, 'abc', 2)
struct.pack('xxbx', 5)
struct.pack(' > b < h ', 5, 6)
struct.pack('b\0i', 5)
struct.pack('>f<f', 1.5, 0.1)
struct.pack('>d<d', 1.5, 0.1)
struct.pack('T', 7)
struct.pack('L', 2^63)
struct.pack('L', 2^64)
struct.pack('L', 1e300)
struct.pack('L', -1)
struct.pack('L', -1.9)
struct.pack('l', -2^63)
struct.pack('l', -1e300)
struct.pack('L', 1/0)
struct.pack('L', -1/0)
struct.pack('f', 1e300)
struct.pack('f', 1/0)
struct.pack('dfL', 0/0, 0/0, 0/0)
struct.pack('l', 0/0)
struct.pack('B', 256)
struct.pack('B', 255.9)
struct.pack('h', 70000)
struct.unpack()
struct.unpack('i')
struct.unpack('i', nil)
struct.unpack('i', {})
struct.unpack('i', 1234)
struct.unpack('i', '123')
struct.unpack('', '')
struct.unpack('', '', 9)
struct.unpack('', '', -4)
struct.unpack('<', 'a', 2)
struct.unpack('<', 'a', 3)
struct.unpack(' ', 'a', -1)
struct.unpack('b', 'a', 0)
struct.unpack('b', 'a', 1)
struct.unpack('b', 'a', 1.9)
struct.unpack('b', 'a', '1')
struct.unpack('b', 'a', 'x')
struct.unpack('b', 'a', {})
struct.unpack('b', 'a', nil)
struct.unpack('b', 'a', 2)
struct.unpack('b', 'ab', 2)
struct.unpack('b', 'ab', 2^40)
struct.unpack('z', 'ab')
struct.unpack('z', 'ab', 9)
struct.unpack('i33', 'ab')
struct.unpack('bi33', '')
struct.unpack('!3', 'ab')
struct.unpack('!3', 'ab', 9)
struct.unpack('s', 'abc')
struct.unpack('s', 'abc\0d')
struct.unpack('s', '')
struct.unpack('ss', 'a\0\0')
struct.unpack('c0', 'abc')
struct.unpack('Bc0', '\3abcd')
struct.unpack('Bc0', '\4abc')
struct.unpack('Bc0', '\0abc')
struct.unpack('bc0', '\255abc')
struct.unpack('dc0', struct.pack('d', 2.9) .. 'abcd')
struct.unpack('dc0', struct.pack('d', -1) .. 'abcd')
struct.unpack('dc0', struct.pack('d', 1e300) .. 'abcd')
struct.unpack('Bc0c0', '\2abcd')
struct.unpack('Bc0c0', '\0011bcd')
struct.unpack('sc0', '2\0abc')
struct.unpack('Bxc0', '\2.abc')
struct.unpack('c2c', 'abc')
struct.unpack('c9', 'abc')
struct.unpack('c2147483648', 'abc')
struct.unpack('i3', '\1\2\3')
struct.unpack('>i3', '\255\2\3')
struct.unpack('i0', '')
struct.unpack('I0', '')
struct.unpack('i9', '\1\2\3\4\5\6\7\8\9')
struct.unpack('>i16', '\1\2\3\4\5\6\7\8\9\10\11\12\13\14\15\16')
struct.unpack('I32', ('\1\2\3\4\5\6\7\255'):rep(4))
struct.unpack('!bd', ('a'):rep(16))
struct.unpack('!bd', ('a'):rep(15))
struct.unpack('!bd', ('a'):rep(30), 4)
struct.unpack('!bi3b', ('abc'):rep(4))
struct.unpack('b\0i', 'a')
select('#', struct.unpack(('b'):rep(7000), ('x'):rep(7000)))
select('#', struct.unpack(('b'):rep(7995), ('x'):rep(7995)))
select('#', struct.unpack(('b'):rep(7996), ('x'):rep(7996)))
select('#', struct.unpack(('b'):rep(7997), ('x'):rep(7997)))
select('#', struct.unpack(('b'):rep(7998), ('x'):rep(7998)))
select('#', struct.unpack(('b'):rep(9000), ('x'):rep(9000)))
struct.size()
struct.size({})
struct.size('')
struct.size('bhilLTfdxc7 <>!')
struct.size('!bd')
struct.size('!bi3d')
struct.size('s')
struct.size('bc0')
struct.size('bzi')
struct.size('b?i')
struct.size('i64')
struct.size('!7')
struct.size('i\0s')
struct.size('b\200')
`), "\n")

// TestDifferentialStruct compares the library struct: the table, and random formats with values, whose strings are also
// unpacked by random formats from random places.
func TestDifferentialStruct(t *testing.T) {
	onServers(t, func(t *testing.T, ours, theirs *rawClient) {
		for _, expr := range structTable {
			compareLua(t, ours, theirs, showLua+"return results("+expr+")")
			call, args, _ := strings.Cut(expr, "(")
			if args != ")" {
				args = ", " + args
			}
			if call != "select" {
				compareLua(t, ours, theirs, showLua+"return results(pcall("+call+args+")")
			}
		}
		g := gen{rand.New(rand.NewPCG(11, 12+seedOffset))}
		for range 700 {
			format := g.structFormat()
			values := g.many(0, 12, g.luaValue)
			data := g.bytes(80)
			from := g.pick("1", "1", "1", "2", "3", "9", "0", "-1")
			compareLua(t, ours, theirs, showLua+`
				local format, data, from = args[2], args[3], tonumber(args[4])
				local ok, packed = pcall(struct.pack, format, `+strings.Join(append(values, "1", "2.5", "'abc'"), ", ")+`)
				return {show(ok, 1), packed, results(pcall(struct.unpack, format, ok and packed or data)),
					results(pcall(struct.unpack, format, data, from)), results(pcall(struct.size, format))}`, format, data, from)
		}
	})
}

// structFormat returns a format, mostly a valid one.
func (g gen) structFormat() string {
	return strings.Join(g.many(0, 16, func() string {
		if g.IntN(60) == 0 {
			return g.pick("z", "i33", "!3", "5", "i3", "!0", "\xff", "I16")
		}
		return g.pick("b", "B", "h", "H", "i", "I", "l", "L", "T", "i4", "I8", "i2", "I1", "f", "d", "x", "s", "c3", "c", "c0", "Bc0", "<", ">", " ", "!", "!4", "d", "i", "L")
	}), "")
}

func (g gen) bytes(most int) string {
	b := make([]byte, g.IntN(most+1))
	for i := range b {
		b[i] = byte(g.Uint32() >> g.IntN(9))
	}
	return string(b)
}

// luaNumber returns the source of a number.
func (g gen) luaNumber() string {
	switch g.IntN(7) {
	case 0:
		return strconv.Itoa(g.IntN(40) - 20)
	case 1:
		return strconv.FormatInt(int64(g.Uint64())>>g.IntN(64), 10)
	case 2:
		bound := math.Ldexp(1, 1+g.IntN(65)) // not 1: a constant -0 changes all others that are 0 in the server's Lua
		return g.pick("", "-") + "(" + strconv.FormatFloat(bound, 'g', -1, 64) + g.pick("", "-1", "+1") + ")"
	case 3:
		return strconv.FormatFloat(float64(float32(g.NormFloat64())), 'g', -1, 64)
	case 4:
		return strconv.FormatFloat(math.Ldexp(g.NormFloat64(), g.IntN(600)-300), 'g', -1, 64)
	case 5:
		return g.pick("0", "-0.5", "127", "128", "-32", "-33", "255", "256", "65535", "65536", "-128", "-129", "-32768", "-32769", "4294967295", "4294967296", "-2147483648", "-2147483649", "1/0", "-1/0", "0.1", "16777217.5")
	}
	return strconv.FormatFloat(g.NormFloat64()*100, 'f', g.IntN(4), 64)
}

// luaString returns the source of a string.
func (g gen) luaString() string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, c := range []byte(g.bytes(6)) {
		fmt.Fprintf(&b, `\%03d`, c)
	}
	b.WriteByte('\'')
	return b.String()
}

// luaValue returns the source of a number or string, rarely of something else.
func (g gen) luaValue() string {
	switch g.IntN(20) {
	case 0:
		return g.pick("nil", "true", "{}", "'7'", "'0x10'", "print", "'x'")
	case 1, 2, 3, 4:
		return g.luaString()
	}
	return g.luaNumber()
}

// luaTree returns the source of any value; flat leaves out tables with several entries in a map, whose order differs.
func (g gen) luaTree(depth int, flat bool) string {
	if depth <= 0 || g.IntN(3) == 0 {
		switch g.IntN(12) {
		case 0:
			return g.pick("nil", "true", "false", "cjson.null", "tostring")
		case 1:
			return fmt.Sprintf("('%s'):rep(%d)", g.pick("x", "yz"), g.IntN(40000)>>g.IntN(16))
		case 2, 3, 4:
			return g.luaString()
		}
		return g.luaNumber()
	}
	item := func() string { return g.luaTree(depth-1, flat) }
	switch g.IntN(4) {
	case 0, 1:
		return "{" + strings.Join(g.many(0, 5, item), ", ") + "}"
	case 2:
		if !flat {
			return "{" + strings.Join(g.many(0, 6, func() string { return "[" + g.luaKey() + "] = " + item() }), ", ") + "}"
		}
	}
	return "{[" + g.luaKey() + "] = " + item() + "}"
}

func (g gen) luaKey() string {
	if g.IntN(3) == 0 {
		return g.pick("1", "2", "3", "0", "-1", "1.5", "2^31", "2^40", "true", "'1'")
	}
	return g.luaString()
}

var msgpackTable = strings.Split(strings.TrimSpace(`
cmsgpack.pack()
cmsgpack.pack(nil)
cmsgpack.pack(nil, nil)
cmsgpack.pack(1, 'a', {}, true)
cmsgpack.pack({1, 2, nil})
cmsgpack.pack({1, nil, 3})
cmsgpack.pack({[1] = 1, [2] = 2, [3] = 3})
cmsgpack.pack({[2] = 2})
cmsgpack.pack({[0] = 2})
cmsgpack.pack({[1.5] = 2})
cmsgpack.pack({['1'] = 2})
cmsgpack.pack({[2^31] = 2})
cmsgpack.pack({[true] = false})
cmsgpack.pack({a = {}})
cmsgpack.pack({a = {b = {1, 2}}})
cmsgpack.pack(('x'):rep(31))
cmsgpack.pack(('x'):rep(32))
cmsgpack.pack(('x'):rep(255))
cmsgpack.pack(('x'):rep(256))
cmsgpack.pack(('x'):rep(65535))
cmsgpack.pack(('x'):rep(65536))
(function() local t = {} for i = 1, 15 do t[i] = i end return cmsgpack.pack(t) end)()
(function() local t = {} for i = 1, 16 do t[i] = i end return cmsgpack.pack(t) end)()
(function() local t = {} for i = 1, 65536 do t[i] = i end return #cmsgpack.pack(t), cmsgpack.pack(t):sub(1, 9) end)()
(function() local t = {} for i = 1, 15 do t['k' .. i] = i end return #cmsgpack.pack(t), cmsgpack.pack(t):byte(1, 1) end)()
(function() local t = {} for i = 1, 16 do t['k' .. i] = i end return #cmsgpack.pack(t), cmsgpack.pack(t):byte(1, 3) end)()
(function() local t = {} for i = 1, 65536 do t['k' .. i] = i end return #cmsgpack.pack(t), cmsgpack.pack(t):byte(1, 5) end)()
(function() local t = {} for i = 1, 15 do t = {t} end return cmsgpack.pack(t) end)()
(function() local t = {} for i = 1, 16 do t = {t} end return cmsgpack.pack(t) end)()
(function() local t = {} for i = 1, 17 do t = {a = t} end return cmsgpack.pack(t) end)()
(function() local t = {} for i = 1, 40 do t = {t} end return cmsgpack.unpack(cmsgpack.pack(t)) end)()
(function() local t = {} t[1] = t return cmsgpack.pack(t) end)()
(function() local t = {} t.x = t return cmsgpack.pack(t) end)()
cmsgpack.pack(cjson.null)
cmsgpack.pack(2^63)
cmsgpack.pack(0/0)
cmsgpack.pack(-2^63)
cmsgpack.pack(2^53 + 2)
cmsgpack.pack(1e300)
cmsgpack.pack(-0.0)
cmsgpack.pack(0.1, 0.5, 1/0, -1/0)
cmsgpack.unpack()
cmsgpack.unpack(nil)
cmsgpack.unpack({})
cmsgpack.unpack(5)
cmsgpack.unpack('')
cmsgpack.unpack('\1\2\3')
cmsgpack.unpack('\1', 'extra', 'args')
cmsgpack.unpack('\192')
cmsgpack.unpack('\193')
cmsgpack.unpack('\1\193')
cmsgpack.unpack('\196\1a')
cmsgpack.unpack('\212\1a')
cmsgpack.unpack('\217')
cmsgpack.unpack('\217\3ab')
cmsgpack.unpack('\219\255\255\255\255a')
cmsgpack.unpack('\220\255\255\1\1')
cmsgpack.unpack('\221\255\255\255\255\1\1')
cmsgpack.unpack('\223\255\255\255\255\1\1')
cmsgpack.unpack('\147\1\192\3')
cmsgpack.unpack('\129\192\1')
cmsgpack.unpack('\129\192\192')
cmsgpack.unpack('\129\1\192')
cmsgpack.unpack('\129\203\127\248\0\0\0\0\0\0\1')
cmsgpack.unpack('\130\1\2\1\3')
cmsgpack.unpack('\129\144\1') ~= nil
cmsgpack.unpack('\207\255\255\255\255\255\255\255\255')
cmsgpack.unpack('\207\128\0\0\0\0\0\0\0')
cmsgpack.unpack('\211\128\0\0\0\0\0\0\0')
cmsgpack.unpack('\202\127\128\0\0')
cmsgpack.unpack_one()
cmsgpack.unpack_one('')
cmsgpack.unpack_one('\1\2\3')
cmsgpack.unpack_one('\1\2\3', 1)
cmsgpack.unpack_one('\1\2\3', 2)
cmsgpack.unpack_one('\1\2\3', 3)
cmsgpack.unpack_one('\1\2\3', 4)
cmsgpack.unpack_one('\1\2\3', -1)
cmsgpack.unpack_one('\1\2\3', 'x')
cmsgpack.unpack_one('\1\2\3', '1')
cmsgpack.unpack_one('\1\2\3', 1.9)
cmsgpack.unpack_one('\1\2\3', nil)
cmsgpack.unpack_one(5, {})
cmsgpack.unpack_one({}, 1)
cmsgpack.unpack_limit()
cmsgpack.unpack_limit('\1\2\3')
cmsgpack.unpack_limit('\1\2\3', nil)
cmsgpack.unpack_limit('\1\2\3', 'x')
cmsgpack.unpack_limit('\1\2\3', 0)
cmsgpack.unpack_limit('\1\2\3', 0, 1)
cmsgpack.unpack_limit('\1\2\3', 0, 3)
cmsgpack.unpack_limit('\1\2\3', 2)
cmsgpack.unpack_limit('\1\2\3', 2, 1)
cmsgpack.unpack_limit('\1\2\3', 2, 2)
cmsgpack.unpack_limit('\1\2\3', -1)
cmsgpack.unpack_limit('\1\2\3', -1, 7)
cmsgpack.unpack_limit('\1\2\193', 2)
cmsgpack.unpack_limit('\1\2\193', 3)
cmsgpack.unpack_limit('\1\2\3', 2^40)
cmsgpack.unpack_limit(nil, 1)
select('#', cmsgpack.unpack(('\1'):rep(7990)))
select('#', cmsgpack.unpack(('\1'):rep(7999)))
select('#', cmsgpack.unpack(('\1'):rep(8000)))
select('#', cmsgpack.unpack_limit(('\1'):rep(9000), 7998))
select('#', cmsgpack.unpack_limit(('\1'):rep(9000), 7999))
select('#', cmsgpack.unpack_limit(('\1'):rep(9000), 8000))
type(cmsgpack.unpack(('\145'):rep(3990) .. '\1'))
type(cmsgpack.unpack(('\145'):rep(3998) .. '\1'))
type(cmsgpack.unpack(('\145'):rep(3999) .. '\1'))
type(cmsgpack.unpack(('\145'):rep(4000) .. '\1'))
type(cmsgpack.unpack(('\129\1'):rep(3998) .. '\1'))
type(cmsgpack.unpack(('\129\1'):rep(3999) .. '\1'))
type(cmsgpack.unpack(('\129\1'):rep(4000) .. '\1'))
cmsgpack._NAME, cmsgpack._VERSION, cmsgpack._DESCRIPTION
type(cmsgpack_safe)
cmsgpack.pack(struct.pack('b', 1), bit.band(7, 3))
pcall(function() cmsgpack.pack = nil end)
pcall(function() struct.x = 1 end)
bit.band()
bit.band(nil)
bit.band({}, 1)
bit.band('x')
bit.band(1, {})
bit.lshift(1)
bit.tobit()
bit.tohex('x')
bit.tohex(255, nil)
bit.tohex(255, 'x')
bit.tohex(-1, 0)
bit.tohex(-1, -2^31)
bit.tobit(2^31), bit.tobit(2^32), bit.tobit(2^40 + 3), bit.tobit(2^52 + 1), bit.tobit(2^53 + 2), bit.tobit(1e300), bit.tobit(1/0), bit.tobit(0.5), bit.tobit(1.5), bit.tobit(-0.5)
`), "\n")

// TestDifferentialMsgPack compares the library cmsgpack: the table, random values that are packed and unpacked, and
// bytes that pack never returns.
func TestDifferentialMsgPack(t *testing.T) {
	onServers(t, func(t *testing.T, ours, theirs *rawClient) {
		for _, expr := range msgpackTable {
			compareLua(t, ours, theirs, showLua+"return results("+expr+")")
		}
		g := gen{rand.New(rand.NewPCG(21, 22+seedOffset))}
		for range 300 {
			values := strings.Join(g.many(1, 4, func() string { return g.luaTree(4, true) }), ", ")
			compareLua(t, ours, theirs, showLua+"local packed = cmsgpack.pack("+values+") return {packed, results(cmsgpack.unpack(packed))}")
		}
		for range 150 { // both unpack the packed values of one side
			values := g.luaTree(5, false)
			packed := ours.must(t, "FCALL", "ev", "0", "return cmsgpack.pack("+values+")").text
			compareLua(t, ours, theirs, showLua+"return {#cmsgpack.pack("+values+"), results(cmsgpack.unpack(args[2]))}", packed)
		}
		for range 400 {
			data := g.bytes(40)
			if g.IntN(2) == 0 {
				data = string([]byte{byte(g.IntN(256))}) + data
			}
			data = strings.NewReplacer("\xce", "\xcd", "\xd2", "\xd1").Replace(data) // keys of a map that would take a gigabyte here
			compareLua(t, ours, theirs, showLua+`return {results(pcall(cmsgpack.unpack, args[2])), results(pcall(cmsgpack.unpack_one, args[2], tonumber(args[3]))),
				results(pcall(cmsgpack.unpack_limit, args[2], tonumber(args[4]), tonumber(args[3])))}`, data, strconv.Itoa(g.IntN(6)), strconv.Itoa(g.IntN(4)))
		}
	})
}

// TestDifferentialBit compares the library bit with random numbers.
func TestDifferentialBit(t *testing.T) {
	onServers(t, func(t *testing.T, ours, theirs *rawClient) {
		g := gen{rand.New(rand.NewPCG(31, 32+seedOffset))}
		for range 400 {
			call := g.pick("band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "tohex", "tobit", "bnot", "bswap")
			args := strings.Join(g.many(1, 3, g.luaValue), ", ")
			compareLua(t, ours, theirs, showLua+"return results(pcall(bit."+call+", "+args+"))")
		}
	})
}

// TestDifferentialRanges compares reading, writing and extending parts of strings, directly and from functions, also
// with offsets beyond the limits.
func TestDifferentialRanges(t *testing.T) {
	onServers(t, func(t *testing.T, ours, theirs *rawClient) {
		for _, c := range []*rawClient{ours, theirs} {
			c.must(t, "FUNCTION", "LOAD", "REPLACE", callLibrary)
		}
		g := gen{rand.New(rand.NewPCG(41, 42+seedOffset))}
		offset := func() string {
			return g.pick("0", "-1", "1", "536870911", "536870912", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "x", "", "1.5",
				strconv.Itoa(g.IntN(60)-20), strconv.Itoa(g.IntN(300)), strconv.Itoa(g.IntN(60)-20), strconv.Itoa(g.IntN(60)-20))
		}
		small := func() string { return g.pick(strconv.Itoa(g.IntN(60)), strconv.Itoa(g.IntN(600)), offset()) }
		for step := range 5000 {
			k := []string{g.keyOf("str")}
			var words []string
			switch g.IntN(16) {
			case 0, 1, 2, 3:
				words = cat("GETRANGE", k, []string{offset(), offset()})
			case 4, 5, 6, 7:
				at := small()
				if at == "536870911" { // half a gigabyte of zero bytes is for TestSetRangeLimits
					at = "70"
				}
				words = cat("SETRANGE", k, []string{at, g.bytes(12)})
			case 8, 9:
				words = cat("APPEND", k, []string{g.val()})
			case 10:
				words = cat("COPY", k, []string{g.keyOf("str")}, g.maybe("REPLACE"))
			case 11:
				words = cat("RENAME", k, []string{g.keyOf("str")})
			case 12:
				words = cat(g.pick("GETDEL", "STRLEN", "TYPE", "INCR", "DEL"), k)
			case 13:
				words = cat("PEXPIREAT", k, []string{strconv.Itoa(far + g.IntN(1000))})
			case 14:
				words = cat("SET", k, []string{g.pick("12", g.bytes(30))}, g.maybe("GET"))
			default:
				words = cat(g.pick("GET", "GETRANGE list0 0", "SETRANGE list0 0", "APPEND list0", "RPUSH list0 a", "MGET"), k)
			}
			switch g.IntN(4) {
			case 0:
				words = append([]string{"FCALL", "cmd", "0"}, words...)
			case 1:
				words = append([]string{"FCALL", "pcmd", "0"}, words...)
			}
			if want, got := theirs.must(t, words...).String(), ours.must(t, words...).String(); got != want {
				t.Fatalf("step %d: %q\n got %s\nwant %s", step, words, got, want)
			}
			if step%500 == 499 {
				compareDumps(t, ours, theirs)
			}
		}
	})
}

// TestDifferentialLists compares lists that are trimmed at both ends as they grow.
func TestDifferentialLists(t *testing.T) {
	onServers(t, func(t *testing.T, ours, theirs *rawClient) {
		g := gen{rand.New(rand.NewPCG(51, 52+seedOffset))}
		for step := range 4000 {
			k := []string{"list" + strconv.Itoa(g.IntN(3))}
			idx := func() string { return strconv.Itoa(g.IntN(240) - 120) }
			var words []string
			switch g.IntN(10) {
			case 0, 1, 2, 3, 4:
				words = cat(g.pick("LPUSH", "RPUSH", "RPUSH"), k, g.many(1, 20, g.member))
			case 5, 6:
				words = cat("LTRIM", k, []string{g.pick("0", "1", "-100", idx()), g.pick("-1", "-2", "99", idx())})
			case 7:
				words = cat("LRANGE", k, []string{idx(), idx()})
			case 8:
				words = cat(g.pick("LPOP", "RPOP"), k, g.maybe(strconv.Itoa(g.IntN(80))))
			default:
				words = cat(g.pick("LLEN", "LINDEX 5", "EXISTS"), k)
				if words[0] == "LINDEX" {
					words = cat("LINDEX", k, []string{idx()})
				}
			}
			if want, got := theirs.must(t, words...).String(), ours.must(t, words...).String(); got != want {
				t.Fatalf("step %d: %q\n got %s\nwant %s", step, words, got, want)
			}
		}
		compareDumps(t, ours, theirs)
	})
}
