package script

import (
	"encoding/binary"
	"fmt"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// maxPackDepth is the nesting from which on tables are packed as nil.
const maxPackDepth = 16

// newCMsgPack returns the server's MessagePack library.
func (l *Interpreter) newCMsgPack() *lua.LTable {
	t := l.L.NewTable()
	t.RawSetString("pack", l.L.NewFunction(l.msgPack))
	t.RawSetString("unpack", l.L.NewFunction(l.msgUnpack))
	t.RawSetString("unpack_one", l.L.NewFunction(l.msgUnpackOne))
	t.RawSetString("unpack_limit", l.L.NewFunction(l.msgUnpackLimit))
	t.RawSetString("_NAME", lua.LString("cmsgpack"))
	t.RawSetString("_VERSION", lua.LString("lua-cmsgpack 0.4.0"))
	t.RawSetString("_DESCRIPTION", lua.LString("MessagePack C implementation for Lua"))
	return t
}

func (l *Interpreter) msgPack(L *lua.LState) int {
	n := L.GetTop()
	if n == 0 {
		argError(L, 0, "pack", "MessagePack pack needs input.")
	}
	b := l.scratch[:0]
	for i := 1; i <= n; i++ {
		b = l.appendMsg(b, L.Get(i), 0)
	}
	L.Push(lua.LString(b))
	l.keepScratch(b)
	return 1
}

func (l *Interpreter) appendMsg(b []byte, v lua.LValue, depth int) []byte {
	switch v := v.(type) {
	case lua.LString:
		return appendMsgString(b, string(v))
	case lua.LNumber:
		return appendMsgNumber(b, float64(v))
	case lua.LBool:
		if v {
			return append(b, 0xc3)
		}
		return append(b, 0xc2)
	case *lua.LTable:
		if depth < maxPackDepth {
			return l.appendMsgTable(b, l.real(v), depth+1)
		}
	}
	return append(b, 0xc0)
}

func appendMsgString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

// appendMsgNumber writes a whole number as the shortest integer, and another one as a float of 4 bytes if that keeps
// its value.
func appendMsgNumber(b []byte, v float64) []byte {
	if !isInt64(v) {
		if f, ok := float32Of(v); ok {
			return binary.BigEndian.AppendUint32(append(b, 0xca), math.Float32bits(f))
		}
		return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
	}
	n := int64(v)
	switch {
	case n >= -32 && n <= math.MaxInt8:
		return append(b, byte(n))
	case n >= 0 && n <= math.MaxUint8:
		return append(b, 0xcc, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n >= 0 && n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	case n >= 0:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), uint64(n))
	case n >= math.MinInt8:
		return append(b, 0xd0, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n))
}

// appendMsgTable writes a table whose keys are the numbers from 1 on as an array, and any other as a map. depth is the
// depth of the values in the table.
func (l *Interpreter) appendMsgTable(b []byte, t *lua.LTable, depth int) []byte {
	if n, ok := arrayLen(t); ok {
		b = append(b, make([]byte, msgHeader(n))...)
		putMsgHeader(b[len(b)-msgHeader(n):], 0x90, 0xdc, n)
		for i := 1; i <= n; i++ {
			b = l.appendMsg(b, t.RawGetInt(i), depth)
		}
		return b
	}
	// The number of entries is known at the end. Room is left for the header of a small table.
	at, n := len(b), 0
	b = append(b, 0)
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		b = l.appendMsg(b, k, depth)
		b = l.appendMsg(b, v, depth)
		n++
	}
	if more := msgHeader(n) - 1; more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[at+1+more:], b[at+1:])
	}
	putMsgHeader(b[at:], 0x80, 0xde, n)
	return b
}

// arrayLen returns the length of a table all of whose keys are the numbers from 1 on.
func arrayLen(t *lua.LTable) (n int, ok bool) {
	n = t.Len()
	for i := 1; i < n; i++ {
		if t.RawGetInt(i) == lua.LNil {
			return 0, false
		}
	}
	var last lua.LValue = lua.LNil // before the first
	if n > 0 {
		last = lua.LNumber(n)
	}
	next, _ := t.Next(last)
	return n, next == lua.LNil
}

// msgHeader returns the length of the header of a collection of n items.
func msgHeader(n int) int {
	switch {
	case n <= 15:
		return 1
	case n <= math.MaxUint16:
		return 3
	}
	return 5
}

// putMsgHeader writes the header of a collection of n items: small is its code for up to 15 items, and long the code
// for a number of 16 bits; the code for 32 bits is long + 1.
func putMsgHeader(b []byte, small, long byte, n int) {
	switch msgHeader(n) {
	case 1:
		b[0] = small | byte(n)
	case 3:
		b[0] = long
		binary.BigEndian.PutUint16(b[1:], uint16(n))
	default:
		b[0] = long + 1
		binary.BigEndian.PutUint32(b[1:], uint32(n))
	}
}

func (l *Interpreter) msgUnpack(L *lua.LState) int {
	return l.unpackMsgs(L, "unpack", 0, 0)
}

func (l *Interpreter) msgUnpackOne(L *lua.LState) int {
	return l.unpackMsgs(L, "unpack_one", 1, integerArg(L, 2, "unpack_one", 0))
}

func (l *Interpreter) msgUnpackLimit(L *lua.LState) int {
	if L.Get(2) == lua.LNil {
		argTypeError(L, 2, "unpack_limit", "number")
	}
	return l.unpackMsgs(L, "unpack_limit", integerArg(L, 2, "unpack_limit", 0), integerArg(L, 3, "unpack_limit", 0))
}

// unpackMsgs returns up to limit values from offset on, after the offset of the next value, which is -1 at the end.
// With neither a limit nor an offset, it returns all values alone.
func (l *Interpreter) unpackMsgs(L *lua.LState, function string, limit, offset int64) int {
	data := l.textArg(L, 1, function)
	if limit < 0 || offset < 0 {
		// The server calls the length a limit.
		raiseText(L, fmt.Sprintf("Invalid request to unpack with offset of %d and limit of %d.",
			int32(offset), int32(len(data))))
	}
	if offset > int64(len(data)) {
		raiseText(L, fmt.Sprintf("Start offset %d greater than input length %d.", int32(offset), len(data)))
	}
	all := limit == 0 && offset == 0
	if all {
		limit = math.MaxInt32
	}
	L.SetTop(1)
	d := msgDecoder{l: l, L: L, data: data, pos: int(offset), stack: 1}
	if !all {
		L.Push(lua.LNil) // the place of the next offset
	}
	n := 0
	for ; d.pos < len(data) && int64(n) < limit; n++ {
		L.Push(d.value())
	}
	if all {
		return n
	}
	checkStack(L, d.stack, 1, "in function mp_unpack_full")
	next := d.pos
	if next == len(data) {
		next = -1
	}
	L.Replace(2, l.numbers.value(float64(next)))
	return n + 1
}

// msgDecoder reads values from data.
type msgDecoder struct {
	l     *Interpreter
	L     *lua.LState
	data  string
	pos   int
	stack int // values on the stack of the server's decoder, which bounds how many there are and how deep they nest
}

const (
	textTooManyValues = "too many return values at once; use unpack_one or unpack_limit instead."
	textMissingBytes  = "Missing bytes in input."
)

// take returns the n bytes that follow a header of the given length.
func (d *msgDecoder) take(header, n int) string {
	if len(d.data)-d.pos < header || len(d.data)-d.pos-header < n {
		raiseText(d.L, textMissingBytes)
	}
	from := d.pos + header
	d.pos = from + n
	return d.data[from:d.pos]
}

// size reads a length that is encoded in the given number of bytes.
func (d *msgDecoder) size(bytes int) int { return int(d.unsigned(bytes)) }

// unsigned reads the number, encoded in the given number of bytes, that follows the code of a value.
func (d *msgDecoder) unsigned(bytes int) uint64 {
	s := d.take(1, bytes)
	return loadInteger(s, 0, bytes, true)
}

// value reads one value and leaves its place on the stack taken.
func (d *msgDecoder) value() lua.LValue {
	if d.pos >= len(d.data) {
		raiseText(d.L, textMissingBytes)
	}
	checkStack(d.L, d.stack, 1, textTooManyValues)
	v := d.any()
	d.stack++
	return v
}

func (d *msgDecoder) any() lua.LValue {
	code := d.data[d.pos]
	switch {
	case code < 0x80:
		d.pos++
		return smallNumbers[code]
	case code < 0x90:
		d.pos++
		return d.table(int(code&15), true)
	case code < 0xa0:
		d.pos++
		return d.table(int(code&15), false)
	case code < 0xc0:
		return d.text(0, int(code&31))
	case code >= 0xe0:
		d.pos++
		return d.l.numbers.value(float64(int8(code)))
	}
	switch code {
	case 0xc0:
		d.pos++
		return lua.LNil
	case 0xc2, 0xc3:
		d.pos++
		return lua.LBool(code == 0xc3)
	case 0xd9, 0xda, 0xdb:
		width := 1 << (code - 0xd9)
		return d.longText(width)
	case 0xdc, 0xdd, 0xde, 0xdf:
		n := d.size(2 << ((code - 0xdc) & 1))
		return d.table(n, code >= 0xde)
	}
	return d.number(code)
}

// number reads a number that has a separate code.
func (d *msgDecoder) number(code byte) lua.LValue {
	var v float64
	switch code {
	case 0xca:
		v = float64(math.Float32frombits(uint32(d.unsigned(4))))
	case 0xcb:
		v = math.Float64frombits(d.unsigned(8))
	case 0xcc, 0xcd, 0xce, 0xcf:
		v = float64(int64(d.unsigned(1 << (code - 0xcc)))) // signed, as on a server
	case 0xd0:
		v = float64(int8(d.unsigned(1)))
	case 0xd1:
		v = float64(int16(d.unsigned(2)))
	case 0xd2:
		v = float64(int32(d.unsigned(4)))
	case 0xd3:
		v = float64(int64(d.unsigned(8)))
	default:
		raiseText(d.L, "Bad data format in input.")
	}
	return d.l.numbers.value(v)
}

// longText reads a string whose length has width bytes.
func (d *msgDecoder) longText(width int) lua.LValue {
	start := d.pos
	n := d.size(width)
	d.pos = start
	return d.text(width, n)
}

// text reads a string of n bytes that follows a header of the given length.
func (d *msgDecoder) text(header, n int) lua.LValue {
	d.take(1+header, n)
	return part(d.data, d.pos-n, d.pos)
}

// maxArrayRoom bounds the memory that an array gets before its values are read: arrays within arrays could each claim
// as much as all the data that is left.
const maxArrayRoom = 256

// table reads an array of n values or a map of n pairs.
func (d *msgDecoder) table(n int, isMap bool) lua.LValue {
	top := d.stack
	d.stack++ // the table
	room := min(n, len(d.data)-d.pos)
	if isMap {
		t := d.l.L.CreateTable(0, min(room, 64))
		for ; n > 0; n-- {
			k := d.value()
			v := d.value()
			d.set(t, k, v)
			d.stack = top + 1
		}
		d.stack = top
		return t
	}
	t := d.l.L.CreateTable(min(room, maxArrayRoom), 0)
	checkStack(d.L, d.stack, 1, "in function mp_decode_to_lua_array")
	for i := 1; i <= n; i++ {
		d.stack = top + 2 // the table and the index
		t.RawSetInt(i, d.value())
	}
	d.stack = top
	return t
}

// set stores a pair of a map.
func (d *msgDecoder) set(t *lua.LTable, k, v lua.LValue) {
	if k == lua.LNil {
		raise(d.L, lua.LString("table index is nil"))
	}
	if n, ok := k.(lua.LNumber); ok && math.IsNaN(float64(n)) {
		raise(d.L, lua.LString("table index is NaN"))
	}
	t.RawSet(k, v)
}
