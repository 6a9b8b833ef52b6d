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
