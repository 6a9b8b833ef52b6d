package script

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
)

// newStruct returns the library that packs values into strings of a fixed layout.
func (l *Interpreter) newStruct() *lua.LTable {
	t := l.L.NewTable()
	t.RawSetString("pack", l.L.NewFunction(l.structPack))
	t.RawSetString("unpack", l.L.NewFunction(l.structUnpack))
	t.RawSetString("size", l.L.NewFunction(l.structSize))
	return t
}

const (
	// maxStructFormats bounds the formats that are remembered.
	maxStructFormats = 256
	// maxStructInt is the largest integer in bytes, of which eight are significant.
	maxStructInt = 32
	// maxStructAlign is the alignment for "!" without a number.
	maxStructAlign = 8
	// maxScratch bounds the memory that is kept for the next result, in bytes.
	maxScratch = 64 << 10
)

// structFormat is a format as it was read once.
type structFormat struct {
	items []structItem
	// size is the sum of all sizes if the place of every value is known without the data: the format has no alignment,
	// no fault and no string of unknown length. It is -1 otherwise.
	size   int
	values int // number of values
}

// structItem is an option of a format.
type structItem struct {
	kind  structKind
	big   bool // big endian
	code  byte // the letter
	size  int  // bytes
	align int  // the place is a multiple of it
	// fault is the text of the error that the item represents, or empty.
	fault string
}

type structKind uint8

// The kinds of items. Those from structSigned on have a value.
const (
	structControl  structKind = iota // changes the items after it
	structPad                        // a zero byte
	structFault                      // an error that comes before the position is tested
	structInvalid                    // an unknown letter
	structSigned                     // an integer
	structUnsigned                   // an integer
	structFloat                      // of 4 bytes
	structDouble                     // of 8 bytes
	structChars                      // a string of size bytes; 0 = all of it, or the size that the previous value gives
	structText                       // a string up to its zero byte
)

// structFormat parses a format. A fault in it is an error only when the fault is reached, as on a server.
func (l *Interpreter) structFormat(text string) *structFormat {
	if f := l.structFormats[text]; f != nil {
		return f
	}
	f := parseStructFormat(text)
	if l.structFormats == nil || len(l.structFormats) >= maxStructFormats {
		l.structFormats = make(map[string]*structFormat)
	}
	l.structFormats[strings.Clone(text)] = f
	return f
}

// structParser reads a format.
type structParser struct {
	text  string // the rest
	big   bool
	align int
}

func parseStructFormat(text string) *structFormat {
	text, _, _ = strings.Cut(text, "\x00") // which ends a string in C
	p := structParser{text: text, align: 1}
	f := &structFormat{}
	for p.text != "" {
		item := p.item()
		f.items = append(f.items, item)
		if item.fault != "" {
			break
		}
	}
	f.measure()
	return f
}

// item reads one option.
func (p *structParser) item() structItem {
	item := structItem{code: p.text[0], big: p.big, align: 1}
	p.text = p.text[1:]
	switch item.code {
	case 'b', 'h', 'l', 'i':
		item.kind = structSigned
	case 'B', 'H', 'L', 'I', 'T':
		item.kind = structUnsigned
	case 'f':
		item.kind, item.size = structFloat, 4
	case 'd':
		item.kind, item.size = structDouble, 8
	case 'x':
		item.kind, item.size = structPad, 1
	case 'c':
		item.kind = structChars
		item.size, item.fault = p.number(1)
	case 's':
		item.kind = structText
	case '<', '>':
		p.big = item.code == '>'
	case '!':
		item.fault = p.alignment()
	case ' ':
	default:
		item.kind = structInvalid
	}
	switch item.code {
	case 'b', 'B':
		item.size = 1
	case 'h', 'H':
		item.size = 2
	case 'l', 'L', 'T':
		item.size = 8
	case 'i', 'I':
		item.size, item.fault = p.number(4)
		if item.fault == "" && item.size > maxStructInt {
			item.fault = "integral size " + strconv.Itoa(item.size) + " is larger than limit of " + strconv.Itoa(maxStructInt)
		}
	}
	if item.fault != "" && item.kind != structControl {
		item.kind = structFault
	}
	if item.kind != structChars {
		item.align = max(min(item.size, p.align), 1)
	}
	return item
}

// number reads digits, or returns absent if there are none.
func (p *structParser) number(absent int) (n int, fault string) {
	if p.text == "" || !numfmt.IsDigit(p.text[0]) {
		return absent, ""
	}
	for p.text != "" && numfmt.IsDigit(p.text[0]) {
		if n = n*10 + int(p.text[0]-'0'); n > math.MaxInt32 {
			return 0, "integral size overflow"
		}
		p.text = p.text[1:]
	}
	return n, ""
}

func (p *structParser) alignment() (fault string) {
	n, fault := p.number(maxStructAlign)
	switch {
	case fault != "":
		return fault
	case n == 0 || n&(n-1) != 0:
		return "alignment " + strconv.Itoa(n) + " is not a power of 2"
	}
	p.align = n
	return ""
}

// measure sets size and values.
func (f *structFormat) measure() {
	for _, item := range f.items {
		switch {
		case item.fault != "", item.kind == structInvalid, item.kind == structText, item.align > 1,
			item.kind == structChars && item.size == 0:
			f.size = -1
			return
		case item.kind != structControl && item.kind != structPad:
			f.values++
		}
		f.size += item.size
	}
}

// padding returns the zero bytes that the place of an item at pos begins with.
func (item *structItem) padding(pos int) int {
	if item.align == 1 {
		return 0
	}
	return (item.align - pos&(item.align-1)) & (item.align - 1)
}

// raise throws the error of an item that represents one.
func (item *structItem) raise(L *lua.LState, function string) {
	if item.fault != "" {
		raiseText(L, item.fault)
	}
	if item.kind == structInvalid {
		argError(L, 1, function, "invalid format option '"+string([]byte{item.code})+"'")
	}
}

func (l *Interpreter) structPack(L *lua.LState) int {
	f := l.structFormat(l.textArg(L, 1, "pack"))
	b := l.scratch[:0]
	arg := 1
	for i := range f.items {
		item := &f.items[i]
		item.raise(L, "pack")
		for n := item.padding(len(b)); n > 0; n-- {
			b = append(b, 0)
		}
		switch item.kind {
		case structControl:
			continue
		case structPad:
			b = append(b, 0)
			continue
		}
		if arg++; arg > L.GetTop() {
			L.Push(lua.LNil) // which the server finds there
		}
		switch item.kind {
		case structSigned, structUnsigned:
			b = appendInteger(b, truncateUnsigned(numberArg(L, arg, "pack")), item.size, item.big)
		case structFloat:
			b = appendInteger(b, uint64(math.Float32bits(float32(numberArg(L, arg, "pack")))), 4, item.big)
		case structDouble:
			b = appendInteger(b, math.Float64bits(numberArg(L, arg, "pack")), 8, item.big)
		case structChars, structText:
			s := l.textArg(L, arg, "pack")
			if item.size > len(s) {
				argError(L, arg+1, "pack", "string too short") // the server, too, blames the next argument
			}
			if item.size > 0 {
				s = s[:item.size]
			}
			b = append(b, s...)
			if item.kind == structText {
				b = append(b, 0)
			}
		}
	}
	L.Push(lua.LString(b))
	l.keepScratch(b)
	return 1
}

// keepScratch remembers the memory of a result for the next one.
func (l *Interpreter) keepScratch(b []byte) {
	if cap(b) <= maxScratch {
		l.scratch = b
	}
}

// appendInteger writes the low size bytes of v, with zero bytes above the eighth.
func appendInteger(b []byte, v uint64, size int, big bool) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	if big {
		order = binary.BigEndian
	}
	switch size {
	case 1:
		return append(b, byte(v))
	case 2:
		return order.AppendUint16(b, uint16(v))
	case 4:
		return order.AppendUint32(b, uint32(v))
	case 8:
		return order.AppendUint64(b, v)
	}
	var w [maxStructInt]byte
	if !big {
		binary.LittleEndian.PutUint64(w[:], v)
		return append(b, w[:size]...)
	}
	binary.BigEndian.PutUint64(w[maxStructInt-8:], v)
	return append(b, w[maxStructInt-size:]...)
}

func (l *Interpreter) structUnpack(L *lua.LState) int {
	f := l.structFormat(l.textArg(L, 1, "unpack"))
	data := l.textArg(L, 2, "unpack")
	pos := integerArg(L, 3, "unpack", 1)
	if pos == 0 {
		argError(L, 3, "unpack", "offset must be 1 or greater")
	}
	pos--
	if f.size < 0 || pos < 0 || pos > int64(len(data)-f.size) || L.GetTop()+f.values+2 > maxStack {
		return l.structUnpackSlow(L, f, data, uint64(pos))
	}
	at := int(pos)
	for i := range f.items {
		item := &f.items[i]
		if item.kind >= structSigned {
			L.Push(l.structValue(item, data, at))
			at += item.size
		} else if item.kind == structPad {
			at++
		}
	}
	L.Push(l.numbers.value(float64(at + 1)))
	return f.values + 1
}

// structValue reads the value of known size at a place that the data has.
func (l *Interpreter) structValue(item *structItem, data string, at int) lua.LValue {
	switch item.kind {
	case structSigned:
		v := loadInteger(data, at, item.size, item.big)
		if mask := ^uint64(0) << ((item.size*8 - 1) & 63); v&mask != 0 {
			v |= mask
		}
		return l.numbers.value(float64(int64(v)))
	case structUnsigned:
		return l.numbers.value(float64(loadInteger(data, at, item.size, item.big)))
	case structFloat:
		return l.numbers.value(float64(math.Float32frombits(uint32(loadInteger(data, at, 4, item.big)))))
	case structDouble:
		return l.numbers.value(math.Float64frombits(loadInteger(data, at, 8, item.big)))
	}
	return part(data, at, at+item.size)
}

// loadInteger reads an unsigned integer of size bytes, of which the eight lowest count.
func loadInteger(s string, at, size int, big bool) (v uint64) {
	s = s[at : at+size]
	switch size {
	case 1:
		return uint64(s[0])
	case 2:
		v := uint16(s[0]) | uint16(s[1])<<8
		if big {
			v = bits.ReverseBytes16(v)
		}
		return uint64(v)
	case 4:
		v := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
		if big {
			v = bits.ReverseBytes32(v)
		}
		return uint64(v)
	case 8:
		v = uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		if big {
			v = bits.ReverseBytes64(v)
		}
		return v
	}
	for i := range len(s) {
		if big {
			v = v<<8 | uint64(s[i])
		} else {
			v = v<<8 | uint64(s[len(s)-1-i])
		}
	}
	return v
}

const textDataTooShort = "data string too short"

// structUnpackSlow unpacks by any format and from any place, with the errors that this may lead to.
func (l *Interpreter) structUnpackSlow(L *lua.LState, f *structFormat, data string, pos uint64) int {
	args, n, end := L.GetTop(), 0, uint64(len(data))
	need := func(size int) {
		if uint64(size) > end || pos > end-uint64(size) {
			argError(L, 2, "unpack", textDataTooShort)
		}
	}
	for i := range f.items {
		item := &f.items[i]
		if item.kind == structFault {
			item.raise(L, "unpack")
		}
		pos += uint64(item.padding(int(pos)))
		need(item.size)
		checkStack(L, args+n, 2, "too many results")
		item.raise(L, "unpack")
		size := item.size
		switch item.kind {
		case structControl, structPad:
		case structText:
			if size = strings.IndexByte(data[pos:], 0); size < 0 {
				raiseText(L, "unfinished string in data")
			}
			L.Push(part(data, int(pos), int(pos)+size))
			size++
			n++
		case structChars:
			if size == 0 {
				size = structCount(L, n, end)
				L.Pop(1)
				n--
				need(size)
			}
			L.Push(part(data, int(pos), int(pos)+size))
			n++
		default:
			L.Push(l.structValue(item, data, int(pos)))
			n++
		}
		pos += uint64(size)
	}
	L.Push(l.numbers.value(float64(int64(pos + 1))))
	return n + 1
}

// structCount returns the last of n results as the length of a string, or limit+1 if it is longer than limit.
func structCount(L *lua.LState, n int, limit uint64) int {
	var v float64
	ok := n > 0
	if ok {
		v, ok = toNumber(L.Get(-1))
	}
	if !ok {
		raiseText(L, "format 'c0' needs a previous size")
	}
	return int(min(truncateUnsigned(v), limit+1))
}

func (l *Interpreter) structSize(L *lua.LState) int {
	f := l.structFormat(l.textArg(L, 1, "size"))
	pos := 0
	for i := range f.items {
		item := &f.items[i]
		switch {
		case item.kind == structText:
			argError(L, 1, "size", "option 's' has no fixed size")
		case item.kind == structChars && item.size == 0:
			argError(L, 1, "size", "option 'c0' has no fixed size")
		case item.kind == structInvalid && numfmt.IsAlnum(item.code): // which the server overlooks
		default:
			item.raise(L, "size")
		}
		pos += item.padding(pos) + item.size
	}
	L.Push(l.numbers.value(float64(pos)))
	return 1
}
