package script

import (
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// maxStack is the server's limit on the values that a library function has on the stack, its arguments included.
const maxStack = 8000

// argError throws the error for the n-th argument of a library function.
func argError(L *lua.LState, n int, function, reason string) {
	raiseText(L, "bad argument #"+strconv.Itoa(n)+" to '"+function+"' ("+reason+")")
}

// argTypeError throws the error for an argument of another type.
func argTypeError(L *lua.LState, n int, function, expected string) {
	got := "no value"
	if n <= L.GetTop() {
		got = L.Get(n).Type().String()
	}
	argError(L, n, function, expected+" expected, got "+got)
}

// toNumber converts as C's lua_tonumber does; ok is false where lua_isnumber returns false.
func toNumber(v lua.LValue) (n float64, ok bool) {
	switch v := v.(type) {
	case lua.LNumber:
		return float64(v), true
	case lua.LString:
		return luaNumber(string(v))
	}
	return 0, false
}

// numberArg returns the n-th argument, which has to be a number or the text of one.
func numberArg(L *lua.LState, n int, function string) float64 {
	v, ok := toNumber(L.Get(n))
	if !ok {
		argTypeError(L, n, function, "number")
	}
	return v
}

// textArg returns the n-th argument, which has to be a string or a number.
func (l *Interpreter) textArg(L *lua.LState, n int, function string) string {
	switch v := L.Get(n).(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return l.toText(v)
	}
	argTypeError(L, n, function, "string")
	return ""
}

// integerArg returns the n-th argument without its fraction, or absent if it is nil or missing.
func integerArg(L *lua.LState, n int, function string, absent int64) int64 {
	v := L.Get(n)
	if v == lua.LNil {
		return absent
	}
	f, ok := toNumber(v)
	if !ok {
		argTypeError(L, n, function, "number")
	}
	return truncate(f)
}

// truncateUnsigned converts as C does on the platforms that servers run on, where a number fits or not.
func truncateUnsigned(v float64) uint64 {
	if v >= 1<<63 {
		return uint64(truncate(v-1<<63)) ^ 1<<63
	}
	return uint64(truncate(v))
}

// part returns the bytes of s from lo up to hi. Parts of a long string are copied, because a part that is kept would
// keep the memory of the whole.
func part(s string, lo, hi int) lua.LString {
	if len(s) > 4096 && hi-lo < len(s)/2 {
		return lua.LString(strings.Clone(s[lo:hi]))
	}
	return lua.LString(s[lo:hi])
}

// checkStack throws the server's error when the stack has no room for more values in addition to the top ones.
func checkStack(L *lua.LState, top, more int, reason string) {
	if top+more > maxStack {
		raiseText(L, "stack overflow ("+reason+")")
	}
}

// float32Of reports whether v keeps its value as a float32, and returns it as one.
func float32Of(v float64) (float32, bool) {
	f := float32(v)
	return f, float64(f) == v
}

// isInt64 reports whether v is an integer of 64 bits.
func isInt64(v float64) bool { return v >= math.MinInt64 && v < 1<<63 && v == math.Trunc(v) }
