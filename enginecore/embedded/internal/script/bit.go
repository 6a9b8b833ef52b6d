package script

import (
	"math"
	"math/bits"

	lua "github.com/yuin/gopher-lua"
)

// newBit returns the library of operations on 32-bit integers.
func (l *Interpreter) newBit() *lua.LTable {
	t := l.L.NewTable()
	add := func(name string, fn func(L *lua.LState) uint32) {
		t.RawSetString(name, l.L.NewFunction(func(L *lua.LState) int {
			L.Push(l.numbers.value(float64(int32(fn(L)))))
			return 1
		}))
	}
	fold := func(name string, op func(a, b uint32) uint32) {
		add(name, func(L *lua.LState) uint32 {
			v := bitArg(L, 1, name)
			for i := L.GetTop(); i > 1; i-- {
				v = op(v, bitArg(L, i, name))
			}
			return v
		})
	}
	define := func(name string, op func(v uint32, n int) uint32) {
		add(name, func(L *lua.LState) uint32 { return op(bitArg(L, 1, name), int(bitArg(L, 2, name)&31)) })
	}
	add("tobit", func(L *lua.LState) uint32 { return bitArg(L, 1, "tobit") })
	add("bnot", func(L *lua.LState) uint32 { return ^bitArg(L, 1, "bnot") })
	add("bswap", func(L *lua.LState) uint32 { return bits.ReverseBytes32(bitArg(L, 1, "bswap")) })
	fold("band", func(a, b uint32) uint32 { return a & b })
	fold("bor", func(a, b uint32) uint32 { return a | b })
	fold("bxor", func(a, b uint32) uint32 { return a ^ b })
	define("lshift", func(v uint32, n int) uint32 { return v << n })
	define("rshift", func(v uint32, n int) uint32 { return v >> n })
	define("arshift", func(v uint32, n int) uint32 { return uint32(int32(v) >> n) })
	define("rol", func(v uint32, n int) uint32 { return bits.RotateLeft32(v, n) })
	define("ror", func(v uint32, n int) uint32 { return bits.RotateLeft32(v, -n) })
	t.RawSetString("tohex", l.L.NewFunction(bitToHex))
	return t
}

func bitToHex(L *lua.LState) int {
	v, n := bitArg(L, 1, "tohex"), int32(8)
	if L.GetTop() > 1 {
		n = int32(bitArg(L, 2, "tohex"))
	}
	digits := "0123456789abcdef"
	if n < 0 {
		n, digits = max(n, -8)*-1, "0123456789ABCDEF"
	}
	n = min(n, 8)
	var text [8]byte
	for i := n - 1; i >= 0; i-- {
		text[i] = digits[v&15]
		v >>= 4
	}
	L.Push(lua.LString(text[:n]))
	return 1
}

// bitArg reads a number modulo 2^32, rounded to the nearest integer: the sum has the integer in its low bits. Where the
// number is too large for that, the result is the server's, too.
func bitArg(L *lua.LState, n int, function string) uint32 {
	const integral = 1<<52 + 1<<51
	return uint32(math.Float64bits(numberArg(L, n, function) + integral))
}
