package embedded

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const evalLibrary = `#!lua name=ev
redis.register_function('ev', function(keys, args)
  local f, e = loadstring('local keys, args = ... ; ' .. args[1])
  if not f then return {'does not compile'} end
  return f(keys, args)
end)
redis.register_function('boom', function() error('boom') end)
redis.register_function('boomtable', function() error({err='MY boom'}) end)
redis.register_function('wrongtype', function() return redis.call('HGET', 'str', 'x') end)
redis.register_function('setglobal', function() x = 1 end)
redis.register_function('noglobal', function() return nosuch end)
redis.register_function('changeredis', function() redis.call = nil end)
redis.register_function('changestring', function() string.foo = nil end)
redis.register_function('noargs', function() return redis.call() end)
redis.register_function('nocommand', function() return redis.call('nosuch') end)
redis.register_function('arity', function() return redis.call('get') end)
redis.register_function('badarg', function() return redis.call('get', {}) end)
redis.register_function('denied', function() return redis.call('subscribe', 'x') end)
redis.register_function('rethrow', function()
  local ok, e = pcall(redis.call, 'HGET', 'str', 'x')
  error(e)
end)
redis.register_function('rethrown', function()
  local ok, e = pcall(function()
    error('inner')
  end)

  error(e, 0)
end)
redis.register_function('level2', function()
  local function check() error('outer', 2) end
  check()
end)
redis.register_function('asserted', function() assert(nil, 'msg') end)
redis.register_function('assertion', function() assert(false) end)
redis.register_function('errnil', function() error() end)
redis.register_function('nullerr', function() error(cjson.null) end)
redis.register_function('numerr', function() error(5) end)
redis.register_function('badjson', function() return cjson.decode('{') end)
redis.register_function('rawsetstr', function() rawset(string, 'x', 1) end)
redis.register_function('rawsetg', function() rawset(_G, 'x', 1) end)
redis.register_function('blocking', function() return redis.call('xread', 'block', '0', 'streams', 'nostream', '$') end)
redis.register_function('recursive', function() local function f() return redis.call('fcall', 'boom', '0') end return f() end)
redis.register_function('partial', function() redis.call('SET', 'partial', '1'); redis.call('nosuch') end)
redis.register_function{function_name='ro', callback=function() return redis.call('GET', 'str') end, flags={'no-writes'}}
redis.register_function{function_name='rowrite', callback=function() return redis.call('SET', 'str', 'y') end, flags={'no-writes', 'allow-oom', 'allow-stale'}}
redis.register_function{function_name='rw', callback=function() return 1 end, flags={'allow-oom'}, description='d'}
`

func luaClients(t *testing.T) (ours, theirs *rawClient) { return luaClientsOn(t, server(t)) }

func luaClientsOn(t *testing.T, addr string) (ours, theirs *rawClient) {
	theirs = connectTCP(t, addr)
	ours = connect(t, open(t, Options{Library: evalLibrary}))
	if v := theirs.must(t, "FUNCTION", "LOAD", evalLibrary); v.text != "ev" {
		t.Fatal(v)
	}
	return ours, theirs
}

// luaTable is evaluated on both sides. Every snippet returns something that shows the difference if there is one.
var luaTable = strings.Split(strings.TrimSpace(`
return {1, 2.9, -2.9, 1e15, 9.3e18, -9.3e18, 0/0, 1/0}
return {1, nil, 3}
return {true, false, 'x', nil}
return {false, 1}
return {{}, {{}}, {1,{2,{3}}}}
return nil
return true
return false
return 3.99
return -0.5
return 'text'
return ''
return function() end
return cjson.null
return {ok='fine'}
return {ok='two\r\nlines'}
return {err='MY error'}
return {err='-MY error'}
return {err='ERR'}
return {double=1.5}
return {double='x'}
return {map={a=1}}
return {set={a=true}}
return {a=1, b=2}
return {1, 2, a=3}
return redis.status_reply('a')
return redis.error_reply('My Err')
return redis.error_reply('Oops')
return redis.error_reply('-Oops x')
return redis.error_reply()
return redis.error_reply('a', 'b')
return redis.status_reply()
return redis.sha1hex('')
return redis.sha1hex('abc')
return redis.sha1hex(12)
return redis.sha1hex(1.5)
return {pcall(redis.sha1hex)}
return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}
return redis.REDIS_VERSION
return redis.REDIS_VERSION_NUM
return redis.log(redis.LOG_DEBUG, 'x')
return {pcall(redis.log)}
return {pcall(redis.log, 'x', 'y')}
return {pcall(redis.log, 9, 'y')}
local ok, e = pcall(redis.call, 'HGET', 'str', 'x') return {tostring(ok), type(e), tostring(e)}
local r = redis.pcall('HGET', 'str', 'x') return {r.err, tostring(r.ignore_error_stats_update)}
local r = redis.pcall('nosuch') return {r.err}
local r = redis.pcall() return {r.err}
local r = redis.pcall('get') return {r.err}
local r = redis.pcall('get', {}) return {r.err}
local r = redis.pcall('get', nil) return {r.err}
return {pcall(error, 'x')}
return {pcall(error, {err='a b'})}
local ok, e = pcall(error, {code=7}) return {type(e), e.code}
local ok, e = pcall(error, {err={}}) return type(e)
local ok, e = pcall(error, {err=5}) return {type(e), e}
return {pcall(function() error('x', 0) end)}
return {pcall(function() return 1, 2, 3 end)}
return {select('#', pcall(error))}
return {xpcall(function() error('x', 0) end, function(m) return m .. '!' end)}
local n = 0 local function inc() n = n + 1 end pcall(error, 'x') inc() return n
local n = 0 local function inc() n = n + 1 end pcall(function() local x = nil; return x.y end) inc() return n
local n = 0 local function inc() n = n + 1 end pcall(cjson.decode, 'x') inc() return n
local n = 0 local function inc() n = n + 1 end pcall(redis.call, 'nosuch') inc() return n
return type(redis.call('TYPE', 'str'))
return redis.call('TYPE', 'str').ok
return redis.call('GET', 'none') == false
return redis.call('HGETALL', 'none')
return #redis.call('HGETALL', 'hash')
return redis.call('ZSCORE', 'z', 'a')
return type(redis.call('ZSCORE', 'z', 'a'))
return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')
return redis.call('SISMEMBER', 'none', 'x')
return redis.call('XREAD', 'STREAMS', 'stream', '0')
return redis.call('XREAD', 'STREAMS', 'none', '0') == false
return redis.call('XRANGE', 'stream', '-', '+')
return redis.call('PING')
return redis.call('SET', 'tmp', 'x', 'NX', 'XX')
return redis.call('set', 'tmp', 12)
return redis.call('Set', 'tmp', 12)
return redis.call('LPOP', 'none', 5) == false
return {unpack({1,2,3})}
return {unpack({1,2,3}, 2)}
return {unpack({1,2,3}, 2, 5)}
return {unpack({1,2,3}, 3, 2)}
local t = {} for i = 1, 7999 do t[i] = i end return select('#', unpack(t))
local t = {} for i = 1, 8000 do t[i] = i end return {pcall(unpack, t)}
local t = {'HSET', 'big'} for i = 3, 7998 do t[i] = i end redis.call(unpack(t)) return redis.call('HLEN', 'big')
local t = {} for i = 1, 7998 do t[i] = i end redis.call('HSET', 'big', unpack(t)) return redis.call('HLEN', 'big')
local t = {} for i = 1, 8000 do t[i] = i end return {pcall(redis.call, 'HSET', 'big', unpack(t))}
local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end return f(190)
return tostring(nil) .. tostring(true) .. tostring(cjson.null)
return tostring('x')
return type(cjson.null)
return cjson.null == cjson.null
return cjson.decode('null') == cjson.null
return tonumber(cjson.null) == nil
return cjson.null and 1 or 2
return math.huge == 1/0
return tostring(math.huge) .. tostring(-math.huge)
return math.floor(-1.5)
return {math.fmod(7, 3), math.max(1, 5, 3), math.min(4, 2)}
return math.modf(3.7)
return {string.byte('abc', 1, -1)}
return {string.byte('abc')}
return {string.byte('abc', 2)}
return {string.byte('abc', -1)}
return {string.byte('abc', -5)}
return {string.byte('abc', 0)}
return {string.byte('abc', 4)}
return {string.byte('abc', -2, 9)}
return {string.byte('abc', 3, 2)}
return {string.byte('')}
return {string.byte(string.rep('a', 600000))}
return {pcall(string.byte, string.rep('a', 9000), 1, -1)}
return ('x'):rep(3)
return string.rep('ab', -1)
return {string.find('abc', 'b')}
return {string.find('a.c', '.', 1, true)}
return {string.match('key=val', '(%w+)=(%w+)')}
return string.gsub('hello world', 'o', '0')
return {string.gsub('abc', '%w', '%0%0')}
return string.gsub('abc', '(a)(b)', '%2%1')
local r = {} for w in string.gmatch('a,b,,c', '([^,]*)') do r[#r+1] = '<' .. w .. '>' end return table.concat(r)
local r = {} for w in string.gmatch('a,b,,c', '([^,]+)') do r[#r+1] = '<' .. w .. '>' end return r
return {string.match('{fp:7}:x', '{(.-)}')}
return {string.match('ff:exec:{fp:7}:{fp:7}:ab:core', '%b{}')}
return string.match('  trim ', '^%s*(.-)%s*$')
return {string.find('abc', 'c', -1)}
return string.format('%5d|%-5d|%05d|%+d|%x|%X|%o|%c|%%', 42, 42, 42, 42, 255, 255, 8, 65)
return string.format('%s %s', 'a', 'b')
return string.format('%10s|%-10s|%.2s', 'abc', 'abc', 'abc')
return string.format('%q', 'a "quoted"\n\\ \0 \r text')
return string.format('%.3f|%.0f|%e|%g|%g|%g', 3.14159, 2.5, 12345.678, 1e20, 0.0001, 100000)
return string.format('%s', 1e14)
return string.format('%s', 1e15)
return string.format('%s', 0.1)
return string.format('%d', 1e14)
return string.format('%d', 3.99)
return string.format('%d', '10')
return string.format('%.14g', 1795188498438.25)
return string.format('%.17g', 0.1)
return string.format('%5.1f|%-8.3f|%08.2f', 3.14159, 2.5, -1.5)
return string.format('%i', 5)
return string.format('%u', 5)
return {pcall(string.format, '%d', 'x')}
return {pcall(string.format, '%d')}
return {pcall(string.format, '%y', 1)}
return table.concat({1, 2, 3}, ',')
return table.concat({1e14, 0.1, 1e15, 'x'}, ',')
return table.concat({}, ',')
return table.concat({1,2,3,4}, '-', 2, 3)
return {pcall(table.concat, {1, {}, 3})}
local t = {3, 1, 2} table.sort(t) return t
local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t
local t = {'b', 'B', 'a', 'Z'} table.sort(t) return t
local t = {1, 2, 3} table.remove(t, 1) table.insert(t, 9) table.insert(t, 1, 7) return t
local t = {1, 2, 3} return {table.remove(t), table.remove(t), table.remove(t), #t}
return {#'abc', #{1,2,3}}
return {next({})}
return {type(next), type(pairs), type(_G), type(coroutine)}
local n = 0 for k in pairs(bit) do n = n + 1 end return n
local n = 0 for k in pairs(math) do n = n + 1 end return n
local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) return {co(1), co(10)}
return {rawequal('a', 'a'), rawget({5}, 1)}
return {select(2, 'a', 'b', 'c')}
return {select(-1, 'a', 'b', 'c')}
return tostring(setmetatable({}, {__tostring = function() return 'custom' end}))
return {pcall(setmetatable, string, nil)}
return bit.band(0xff, 0x0f)
return {bit.bor(1, 2, 4), bit.bxor(5, 3), bit.bnot(0), bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-16, 2), bit.rol(0x12345678, 8), bit.ror(0x12345678, 8), bit.bswap(0x12345678)}
return {bit.tohex(255), bit.tohex(-1, 4), bit.tohex(0xabcdef, -6), bit.tobit(2^32 + 5), bit.tobit(1.5), bit.tobit(2.5), bit.tobit(-1.5)}
return {bit.band('12', '10')}
return {bit.lshift(1, 32), bit.lshift(1, 33), bit.rshift(1, -1)}
return cjson.encode({})
return cjson.encode({{}})
return cjson.encode({1, 2, 3})
return cjson.encode({1, nil, 3})
return cjson.encode({[1] = 1, [2] = 2, [4] = 4})
return {pcall(cjson.encode, {[1] = 1, [100] = 2})}
return cjson.encode({[5] = 1})
return {pcall(cjson.encode, {[11] = 1})}
return cjson.encode({[1.5] = 'x'})
return cjson.encode({[0] = 'x'})
return cjson.encode({[-1] = 'x'})
return cjson.encode({a = 1})
return cjson.encode({'a/b', 'q"q', 'b\\b', '\b\f\n\r\t', '\1\31\127', 'é', '\0'})
return cjson.encode('x/y')
return cjson.encode(true)
return cjson.encode(nil)
return cjson.encode(cjson.null)
return cjson.encode({cjson.null, false})
return cjson.encode({1e14, 1e15, 0.1, 1/3, 1795188498438, -0, 123456789012345, 1e300})
return {pcall(cjson.encode, 0/0)}
return {pcall(cjson.encode, 1/0)}
return {pcall(cjson.encode, function() end)}
return {pcall(cjson.encode, {[true] = 1})}
return {pcall(cjson.encode)}
return {pcall(cjson.decode)}
return {pcall(cjson.decode, nil)}
return cjson.encode(cjson.decode('{"a":{"b":[1,2,{"c":null}]}}'))
return cjson.encode(cjson.decode('[]'))
return cjson.encode(cjson.decode('[[],{}]'))
return cjson.encode(cjson.decode('"\\u00e9\\ud83d\\ude00\\n\\/"'))
return cjson.decode('"a\\u0000b"')
return cjson.decode('  5  ')
return cjson.decode('"raw\ttab"')
return cjson.decode(5)
local t = {} for i = 1, 999 do t = {t} end return #cjson.encode(t)
local t = {} for i = 1, 1000 do t = {t} end return {pcall(cjson.encode, t)}
return type(cjson.decode(('['):rep(1000) .. (']'):rep(1000)))
return {pcall(cjson.decode, ('['):rep(1001) .. (']'):rep(1001))}
return {keys[1], args[1] == nil, #keys, #args}
return {getmetatable('').__index.len('abc')}
return {tostring(1e14), tostring(1e13), tostring(123456789012345), tostring(0.1), tostring(-0.0), tostring(0 * -1), tostring(100), tostring(1e100), tostring(-1.5)}
return tostring(2^53)
return {tostring(math.huge - math.huge), tostring(-math.huge), string.format('%g', -math.huge)}
local z = #keys - 1 return {tostring(z / z), tostring(-(z / z))}
local t = {} for i = 1, 10 do t[i] = i end for i = 10, 6, -1 do t[i] = nil end t[#t + 1] = 'x' return t
local t = {n = 1, 'a', 'b', nil, 'd'} return {#t, t.n}
return {('x'):byte(), ('abc'):sub(-2), ('abc'):upper(), ('abc'):reverse(), ('%d'):format(3)}
return {string.find('a,b', ',', 1, true), string.find('abc', 'x')}
local a, b = {}, {} a[b] = 1 return a[b]
return {table.remove({}) == nil, table.remove({1}, 1), #table.concat({'a', 'b'})}
return {1 == 1.0, '1' == 1, 10 == '10'}
return {not nil, not 0, nil == false}
return {'10' + 5, '3' * '4', 10 .. ''}
return {7 % 0 ~= 7 % 0, 2 ^ 0.5 > 1.41, -7 % 0.5}
local s = 0 for i = 10, 1, -3 do s = s + i end return s
local i = 0 repeat i = i + 1 until i >= 3 return i
local function f(...) local a, b = ... return select('#', ...), a, b end return {f(nil, 2, nil)}
return {7 % 3, -7 % 3, 7 % -3, 2^10, 10 / 4}
return 'a' < 'b' and 'Z' < 'a'
return {#('x'):rep(100000)}
return math.random() < 1
local r = math.random(5) return r >= 1 and r <= 5
return {pcall(math.random, 0)}
return collectgarbage('count') >= 0
return loadstring('return 1 + 1')()
return {type(loadstring('syntax error'))}
return {pcall(function() local t = nil; return t.x end) == false}
return {redis.pcall('SELECT', '0')}
return redis.setresp(2)
return {tostring(redis.nosuch)}
`), "\n")

// comparable removes texts from errors that depend on the name of a chunk or on the lookup of a function.
func comparable(v value) string {
	text := chunkNames.ReplaceAllString(v.String(), "CHUNK:")
	if v.kind == '-' {
		text, _, _ = strings.Cut(text, " script: ")
	}
	return functionNames.ReplaceAllString(text, "to '?'")
}

var (
	chunkNames    = regexp.MustCompile(`\[string .*?\.\.\.\\?"\]:|user_function:`)
	functionNames = regexp.MustCompile(`to '\w+'`)
)

// TestDifferentialLua evaluates the table on both sides, in both protocols.
func TestDifferentialLua(t *testing.T) {
	ours, theirs := luaClients(t)
	for _, resp := range []string{"2", "3"} {
		for _, c := range []*rawClient{ours, theirs} {
			c.must(t, "HELLO", resp)
			c.must(t, "FLUSHALL")
			c.must(t, "SET", "str", "v")
			c.must(t, "HSET", "hash", "a", "1", "b", "2")
			c.must(t, "ZADD", "z", "1.5", "a", "2", "b")
			c.must(t, "XADD", "stream", "1-1", "f", "v")
		}
		for _, src := range luaTable {
			want := comparable(theirs.must(t, "FCALL", "ev", "1", "thekey", src))
			got := comparable(ours.must(t, "FCALL", "ev", "1", "thekey", src))
			if got != want {
				t.Errorf("RESP%s %s\n got %s\nwant %s", resp, src, got, want)
			}
		}
		for _, name := range []string{"boom", "boomtable", "wrongtype", "setglobal", "noglobal", "changeredis", "changestring",
			"noargs", "nocommand", "arity", "badarg", "denied", "rethrow", "rethrown", "level2", "asserted", "assertion", "errnil", "nullerr",
			"numerr", "badjson", "rawsetstr", "rawsetg", "blocking", "recursive", "partial", "ro", "rowrite", "rw", "nosuch"} {
			for _, verb := range []string{"FCALL", "FCALL_RO"} {
				want := theirs.must(t, verb, name, "0").String()
				got := ours.must(t, verb, name, "0").String()
				if got != want {
					t.Errorf("RESP%s %s %s\n got %s\nwant %s", resp, verb, name, got, want)
				}
			}
		}
		compareDumps(t, ours, theirs)
	}
}

// TestDifferentialNumbers compares how numbers are read and written.
func TestDifferentialNumbers(t *testing.T) {
	ours, theirs := luaClients(t)
	texts := []string{"", " ", "0", "-0", "+5", "5", " 5 ", "\t5\n", "5 x", "x", "1e3", "1E3", "1e", "1e+", ".5", "5.", ".", "-", "0x", "0x1F", "0X1f", "-0x10",
		"0x1.8p1", "0x.8", "0xg", "1_0", "1,5", "inf", "INF", "-inf", "infinity", "nan", "NaN", "-nan", "nan(1)", "1e400", "-1e400", "1e-400", "1e12",
		"9223372036854775807", "9223372036854775808", "12345678901234567890", "0.1", "1795188498438.25", "010", "0b11", "--5", "+-5", "1 2", "1e5e5", "é", "5\v", "6\x00x", "\x006", " 7 \x00"}
	g := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		texts = append(texts, strconv.FormatFloat(math.Float64frombits(g.Uint64()), byte("efg"[g.IntN(3)]), g.IntN(20)-1, 64))
	}
	compare := func(src string, args ...string) {
		t.Helper()
		words := append([]string{"FCALL", "ev", "0", src}, args...)
		if want, got := theirs.must(t, words...).String(), ours.must(t, words...).String(); got != want {
			t.Errorf("%s %q\n got %s\nwant %s", src, args, got, want)
		}
	}
	for _, text := range texts {
		compare("return tostring(tonumber(args[2]))", text)
		compare("local n = tonumber(args[2]) if not n then return 'none' end return {string.format('%.17g|%g|%.3f|%e', n, n, n, n), n}", text)
		compare("local n = tonumber(args[2]) if not n then return 'none' end return {pcall(cjson.encode, n)}", text)
		compare("return {pcall(cjson.decode, args[2])}", text)
		compare("local ok, v = pcall(cjson.decode, '[' .. args[2] .. ']') return {tostring(ok), tostring(ok and v[1])}", text)
		compare("local ok, v = pcall(cjson.decode, '{\"a\":' .. args[2] .. '}') return {tostring(ok), tostring(ok and v.a)}", text)
		for _, base := range []string{"2", "8", "16", "36"} {
			compare("return tostring(tonumber(args[2], tonumber(args[3])))", text, base)
		}
	}
	// Numbers given straight to commands: integers and binary fractions have the same text on every server version.
	for _, n := range []float64{0, 1, -1, 1.5, -2.25, 1e14, 101795188468441, 1795188498438, 0.5, 1 << 40, 123456.75, -3204811592256, 1 << 52, 100000000000000} {
		compare("redis.call('ZADD', 'n', tonumber(args[2]), 'm') return {redis.call('ZSCORE', 'n', 'm'), redis.call('ECHO', tonumber(args[2]))}", fmt.Sprintf("%g", n))
	}
}

// TestDifferentialJSON decodes mutated documents on both sides.
func TestDifferentialJSON(t *testing.T) {
	ours, theirs := luaClients(t)
	seeds := []string{`{"a":[1,2.5,-3e2,true,false,null,"x\u00e9\n\/"],"b":{"c":{}}}`, `["\ud83d\ude00","\ud83d","\udc00x","\u12",""]`,
		`{"k":1,"k":2}`, `[1,2,]`, `{"a" 1}`, `[nan,inf,-Infinity,0x1f,+5,012]`, `"unterminated`, `tru`, `truex`, `[1 2]`, `{1:2}`, `{"a":}`, "\"a\x01b\"", `"\q"`, `[]]`, ``}
	g := rand.New(rand.NewPCG(5, 5))
	alphabet := "{}[],:\"\\ 0123456789.eE+-truefalsn/u\n"
	const src = `
local function show(v)
  if type(v) == 'table' then
    local keys = {}
    for k in pairs(v) do keys[#keys + 1] = tostring(k) end
    table.sort(keys)
    local out = {}
    for _, k in ipairs(keys) do
      local x = v[k]
      if x == nil then x = v[tonumber(k)] end
      out[#out + 1] = k .. '=' .. show(x)
    end
    return '{' .. table.concat(out, ',') .. '}'
  end
  return type(v) .. ':' .. tostring(v)
end
local ok, v = pcall(cjson.decode, args[2])
return {tostring(ok), ok and show(v) or v}`
	code := strings.Replace(strings.ReplaceAll(src, "\n", " "), "local function show(v)", "local show; show = function(v)", 1)
	for i := range 1500 {
		doc := []byte(seeds[i%len(seeds)])
		if i >= len(seeds) {
			for range 1 + g.IntN(3) {
				at := g.IntN(len(doc) + 1)
				c := alphabet[g.IntN(len(alphabet))]
				switch {
				case at == len(doc) || g.IntN(3) == 0:
					doc = append(doc[:at], append([]byte{c}, doc[at:]...)...)
				case g.IntN(2) == 0:
					doc[at] = c
				default:
					doc = append(doc[:at], doc[at+1:]...)
				}
			}
		}
		words := []string{"FCALL", "ev", "0", code, string(doc)}
		if want, got := theirs.must(t, words...).String(), ours.must(t, words...).String(); got != want {
			t.Errorf("%q\n got %s\nwant %s", doc, got, want)
		}
	}
}

// TestDifferentialLoad compares the libraries and registrations that loading accepts and refuses.
func TestDifferentialLoad(t *testing.T) {
	ours, theirs := luaClients(t)
	const ok = "redis.register_function('okfn', function() return 1 end)\n"
	bodies := []string{"x=1", "local a = string", "local a = ipairs", "local a = cjson", "local a = tonumber", "redis.call('get', 'x')", "local x = redis.setresp",
		"redis.log(redis.LOG_WARNING, 'hi')", "error('x')", "redis.register_function('a b', function() end)", "redis.register_function('a')",
		"redis.register_function{function_name='f', callback=function() end, flags={'no-writes', 'bad'}}",
		"redis.register_function{function_name='f', callback=function() end, foo=1}", "redis.register_function('f', 1)", "redis.register_function(1, function() end)",
		"redis.register_function('f', function() end); redis.register_function('f', function() end)", "local x = 1", "redis.foo = 1",
		"local x = redis.foo", "function g() end", "redis.register_function('f', function() end, {'no-writes'})",
		"redis.register_function{function_name='f'}", "redis.register_function{callback=function() end}", "redis.register_function(1,2,3,4)",
		"redis.register_function()", "redis.register_function('boom', function() end)", "redis.register_function('', function() end)",
		"redis.register_function{function_name='f', callback=function() end, flags='x'}", "redis.register_function{function_name=5, callback=function() end}",
		"redis.register_function{function_name='f', callback=5}", "redis.register_function{function_name='f', callback=function() end, description=7}",
		ok, ok + "local v = redis.REDIS_VERSION .. redis.REDIS_VERSION_NUM", ok + "local t = {1, 2}; local n = #t; for i = 1, n do t[i] = t[i] + 1 end",
		ok + "local s = ('x'):rep(3)", ok + "\n\nnosuch()", "redis.register_function{function_name='okfn', callback=function() return 2 end, flags={'no-writes','allow-stale','allow-oom','no-cluster'}}"}
	var codes [][]string
	for _, body := range bodies {
		codes = append(codes, []string{"REPLACE", "#!lua name=p2\n" + body})
	}
	for _, meta := range []string{"#!lua name=p3", "#!lua", "local x", "#!lua name=a-b", "#!js name=x", "#!lua name=x foo=y", "#!lua name=x name=y", "#!lua name=", "#!LUA name=p2", ""} {
		codes = append(codes, []string{"REPLACE", meta + "\n" + ok})
	}
	codes = append(codes, []string{"#!lua name=ev\n" + ok}, []string{"#!lua name=fresh\nredis.register_function('ff1', function() return 1 end)"}, []string{"FOO", "x"})
	for _, words := range codes {
		words = append([]string{"FUNCTION", "LOAD"}, words...)
		want, got := theirs.must(t, words...).String(), ours.must(t, words...).String()
		if got != want {
			t.Errorf("%q\n got %s\nwant %s", words[2:], got, want)
		}
		for _, call := range [][]string{{"FCALL", "okfn", "0"}, {"FCALL_RO", "okfn", "0"}, {"FCALL", "boom", "0"}} {
			if want, got := theirs.must(t, call...).String(), ours.must(t, call...).String(); got != want {
				t.Errorf("after %q: %q\n got %s\nwant %s", words[2:], call, got, want)
			}
		}
	}
	for _, words := range [][]string{{"FUNCTION", "LIST", "LIBRARYNAME", "fresh"}, {"FUNCTION", "LIST", "LIBRARYNAME", "fresh", "WITHCODE"}, {"FUNCTION", "LIST", "FOO"},
		{"FCALL", "okfn"}, {"FCALL", "okfn", "x"}, {"FCALL", "okfn", "-1"}, {"FCALL", "okfn", "2", "a"}, {"FCALL", "nosuch", "x"},
		{"FUNCTION", "DELETE", "nosuch"}, {"FUNCTION", "DELETE", "fresh"}, {"FCALL", "ff1", "0"}, {"FUNCTION", "FLUSH"}, {"FCALL", "okfn", "0"}, {"FUNCTION", "LIST"}, {"FUNCTION", "KILL"}} {
		if want, got := theirs.must(t, words...).String(), ours.must(t, words...).String(); got != want {
			t.Errorf("%q\n got %s\nwant %s", words, got, want)
		}
	}
}

// TestLuaLimits exceeds the limits of the interpreter and continues.
func TestLuaLimits(t *testing.T) {
	e := open(t, Options{Library: lib(
		"deep", "local function f(n) return 1 + f(n + 1) end return f(1)",
		"selfref", "local t = {} t[1] = t return t",
		"varargs", "local function n(...) return select('#', ...) end local t = {} for i = 1, 7000 do t[i] = i end return n(unpack(t))",
		"huge", "return #string.rep('x', 1e12)",
		"fine", "return 1")})
	c := connect(t, e)
	for range 3 {
		for _, name := range []string{"deep", "selfref", "huge"} {
			if v := c.must(t, "FCALL", name, "0"); v.kind != '-' {
				t.Fatal(name, v)
			}
			if v := c.must(t, "FCALL", "fine", "0"); v.String() != ":1" {
				t.Fatal(name, v)
			}
		}
		if v := c.must(t, "FCALL", "varargs", "0"); v.String() != ":7000" {
			t.Fatal(v)
		}
	}
}
