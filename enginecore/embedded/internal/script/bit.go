package script

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// newBit returns the library of operations on 32-bit integers.
func newBit(L *lua.LState) *lua.LTable {
	t := L.NewTable()
	add := func(name string, fn func(L *lua.LState) uint32) {
		t.RawSetString(name, L.NewFunction(func(L *lua.LState) int {
			L.Push(lua.LNumber(int32(fn(L))))
			return 1
		}))
	}
	fold := func(name string, op func(a, b uint32) uint32) {
		add(name, func(L *lua.LState) uint32 {
			v := bitArg(L, 1)
			for i := 2; i <= L.GetTop(); i++ {
				v = op(v, bitArg(L, i))
			}
			return v
		})
	}
	define := func(name string, op func(v uint32, n int) uint32) {
		add(name, func(L *lua.LState) uint32 { return op(bitArg(L, 1), int(bitArg(L, 2)&31)) })
	}
	add("tobit", func(L *lua.LState) uint32 { return bitArg(L, 1) })
	add("bnot", func(L *lua.LState) uint32 { return ^bitArg(L, 1) })
	add("bswap", func(L *lua.LState) uint32 { return bits.ReverseBytes32(bitArg(L, 1)) })
	fold("band", func(a, b uint32) uint32 { return a & b })
	fold("bor", func(a, b uint32) uint32 { return a | b })
	fold("bxor", func(a, b uint32) uint32 { return a ^ b })
	define("lshift", func(v uint32, n int) uint32 { return v << n })
	define("rshift", func(v uint32, n int) uint32 { return v >> n })
	define("arshift", func(v uint32, n int) uint32 { return uint32(int32(v) >> n) })
	define("rol", func(v uint32, n int) uint32 { return bits.RotateLeft32(v, n) })
	define("ror", func(v uint32, n int) uint32 { return bits.RotateLeft32(v, -n) })
	t.RawSetString("tohex", L.NewFunction(func(L *lua.LState) int {
		v := bitArg(L, 1)
		n := 8
		if L.GetTop() > 1 {
			n = int(int32(bitArg(L, 2)))
		}
		upper := n < 0
		n = min(max(n, -n), 8)
		s := strconv.FormatUint(uint64(v), 16)
		s = strings.Repeat("0", 8-len(s)) + s
		s = s[8-n:]
		if upper {
			s = strings.ToUpper(s)
		}
		L.Push(lua.LString(s))
		return 1
	}))
	return t
}

// bitArg reads a number modulo 2^32, rounded to the nearest integer.
func bitArg(L *lua.LState, i int) uint32 {
	var v float64
	switch a := L.Get(i).(type) {
	case lua.LNumber:
		v = float64(a)
	case lua.LString:
		n, ok := luaNumber(string(a))
		if !ok {
			raiseText(L, "bad argument #"+strconv.Itoa(i)+" (number expected, got string)")
		}
		v = n
	default:
		raiseText(L, "bad argument #"+strconv.Itoa(i)+" (number expected, got "+a.Type().String()+")")
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return uint32(int64(math.Mod(math.RoundToEven(v), 1<<32)))
}
