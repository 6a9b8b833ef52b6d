package script

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

func parsed(t *testing.T, program string) []ast.Stmt {
	t.Helper()
	stmts, err := parse.Parse(strings.NewReader(program), "test")
	require.NoError(t, err)
	return stmts
}

// TestRecursiveFunctions finds functions that call themselves, directly or through others.
func TestRecursiveFunctions(t *testing.T) {
	found := recursiveFunctions(parsed(t, `
local function plain() return other() end
local function self(n) if n > 0 then self(n - 1) end end
function t.a() t.b() end
function t.b() return t.c() end
t.c = function() t.a() end
function t.d() t.a() end
local function outer() local function inner() outer() end inner() end
function o:m() self:m() end
`))
	require.Equal(t, map[string]bool{
		"self": true, "t.a": true, "t.b": true, "t.c": true, "outer": true, "inner": true, ":m": true,
	}, found)
}

// TestDirectNames checks that programs read globals and fields of global tables as if they were looked up one by one.
func TestDirectNames(t *testing.T) {
	run := func(program string) string {
		l := New(Options{})
		defer l.Close()
		_, err := l.Load("#!lua name=t\n"+program, false)
		require.NoError(t, err)
		return l.Run(l.Function("f"), []string{"k"}, []string{"a"}).Str
	}
	function := func(body string) string {
		return run("redis.register_function('f', function(keys, args) " + body + " end)")
	}
	require.Equal(t, "b", function("return string.sub('abc', 2, 2)"))
	require.Equal(t, "nil", function("return tostring(string.absent)"))
	require.Equal(t, "local", function("local string = { sub = function() return 'local' end } return string.sub()"))
	require.Equal(t, "b", function("local s = string return s.sub('abc', 2, 2)"))
	require.Contains(t, function("string.sub = 1"), textReadOnly)
	require.Contains(t, function("tostring = 1"), textReadOnly)
	require.Contains(t, function("return absent"), textNoGlobal+"absent'")
	require.Contains(t, function("return absent.field"), textNoGlobal+"absent'")
	require.Contains(t, function("return _G['string.sub']"), textNoGlobal+"string.sub'")
	require.Equal(t, "3", function("return tostring(loadstring('return string.len(...)')('abc'))"))
}

// Assignments have the values that a server's interpreter assigns.
func TestAssignments(t *testing.T) {
	for body, want := range map[string]string{
		"local q, x = {}, 1; x = q.b and 5; return tostring(x)":                                          "nil",
		"local q, x = {}, 1; x = (q.b and 5); return tostring(x)":                                        "nil",
		"local q, x = {}, 1; x = not q and 5; return tostring(x)":                                        "false",
		"local q, x = {}, 1; x = #q == 1 and 5; return tostring(x)":                                      "false",
		"local q, x = {}, 1; x = q.a or q.b and 5; return tostring(x)":                                   "nil",
		"local q, x = { a = 1 }, 1; x = q.a and q.b and 5; return tostring(x)":                           "nil",
		"local q, x = { b = false }, 1; x = q.b and 5; return tostring(x)":                               "false",
		"local q, x = {}, 1; x = q.b and 5 or 6; return tostring(x)":                                     "6",
		"local q, x = { b = 2 }, 1; x = q.b and 5; return tostring(x)":                                   "5",
		"local q, x = {}, 1; x = tonumber(q.b or 'none') and 5; return tostring(x)":                      "nil",
		"local function f(x, q) x = q.b and 5 return x end return tostring(f(1, {}))":                    "nil",
		"local q, x = {}, 1; local function f() x = q.b and 5 end f() return tostring(x)":                "nil",
		"local a, b = 0, 0; a, b = a + 1, a + b; return a .. ' ' .. b":                                   "1 0",
		"local a, b = 1, 2; a, b = b, a; return a .. ' ' .. b":                                           "2 1",
		"local a, b, c = 1, 2, 3; a, b, c = c, a, b; return a .. b .. c":                                 "312",
		"local t, i = {}, 1; i, t[i] = i + 1, 20; return i .. ' ' .. t[1]":                               "2 20",
		"local t, i = {}, 1; t[i], i = 20, i + 1; return i .. ' ' .. t[1]":                               "2 20",
		"local a, d, f = {}, 'e', 1; f, a.d = f, d; return f .. a.d":                                     "1e",
		"local function two() return 7, 8 end local a, b = 1, 2; a, b = two(); return a .. ' ' .. b":     "7 8",
		"local function two() return 7, 8 end local a, b = 1, 2; a, b = (two()); return tostring(b)":     "nil",
		"local a, b = 1, 2; a, b = 3; return a .. tostring(b)":                                           "3nil",
		"local a, n = 1, 0; local function f() n = n + 1 return n end; a = 2, f(); return a .. ' ' .. n": "2 1",
	} {
		l := New(Options{})
		_, err := l.Load("#!lua name=t\nredis.register_function('f', function(keys, args) "+body+" end)", false)
		require.NoError(t, err)
		require.Equal(t, want, l.Run(l.Function("f"), []string{"k"}, []string{"a"}).Str, body)
		l.Close()
	}
}

// BenchmarkRun calls a function with the typical operations of library functions.
func BenchmarkRun(b *testing.B) {
	l := New(Options{})
	defer l.Close()
	_, err := l.Load(`#!lua name=t
local function double(s) return string.sub(s, 1, 2) .. s end
redis.register_function('f', function(keys, args)
  local out = {}
  for i = 1, 10 do
    local packed = struct.pack('<I4c3', i, 'abc')
    local n, text = struct.unpack('<I4c3', packed)
    out[#out + 1] = double(text) .. tostring(n)
  end
  return table.concat(out, ',')
end)`, false)
	require.NoError(b, err)
	fn, keys, args := l.Function("f"), []string{"k"}, []string{"a", "b"}
	b.ReportAllocs()
	for b.Loop() {
		l.Run(fn, keys, args)
	}
}
