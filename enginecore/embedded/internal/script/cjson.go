package script

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
)

// maxJSONDepth bounds nesting in both directions.
const maxJSONDepth = 1000

// newCJSON returns the server's JSON library: encode, decode and null.
func (l *Interpreter) newCJSON() *lua.LTable {
	L := l.L
	t := L.NewTable()
	t.RawSetString("encode", L.NewFunction(l.jsonEncode))
	t.RawSetString("decode", L.NewFunction(l.jsonDecode))
	t.RawSetString("null", l.null)
	t.RawSetString("_NAME", lua.LString("cjson"))
	t.RawSetString("_VERSION", lua.LString("2.1.0"))
	return t
}

func (l *Interpreter) jsonEncode(L *lua.LState) int {
	if L.GetTop() != 1 {
		raiseText(L, "bad argument #1 to 'encode' (expected 1 argument)")
	}
	out, fault := l.appendJSON(make([]byte, 0, 64), L.Get(1), 0)
	if fault != "" {
		raiseText(L, fault)
	}
	L.Push(lua.LString(out))
	return 1
}

func (l *Interpreter) appendJSON(b []byte, v lua.LValue, depth int) (_ []byte, fault string) {
	switch v := v.(type) {
	case lua.LString:
		return appendJSONString(b, string(v)), ""
	case lua.LNumber:
		return appendJSONNumber(b, float64(v))
	case lua.LBool:
		if v {
			return append(b, "true"...), ""
		}
		return append(b, "false"...), ""
	case *lua.LNilType:
		return append(b, "null"...), ""
	case *lua.LUserData:
		if v == l.null {
			return append(b, "null"...), ""
		}
	case *lua.LTable:
		if depth++; depth > maxJSONDepth {
			return nil, fmt.Sprintf("Cannot serialise, excessive nesting (%d)", depth)
		}
		n, fault := jsonArrayLen(l.real(v))
		switch {
		case fault != "":
			return nil, fault
		case n > 0:
			return l.appendJSONArray(b, v, n, depth)
		}
		return l.appendJSONObject(b, l.real(v), depth)
	}
	return nil, "Cannot serialise " + v.Type().String() + ": type not supported"
}

// jsonArrayLen returns the length of a table that is an array, 0 for an empty table and -1 for an object.
func jsonArrayLen(t *lua.LTable) (n int, fault string) {
	top, items := 0, 0
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		_ = v
		f, ok := k.(lua.LNumber)
		if !ok || f < 1 || float64(f) != math.Floor(float64(f)) || f > math.MaxInt32 {
			return -1, ""
		}
		top = max(top, int(f))
		items++
	}
	// More than half holes in an array of any size would mean megabytes of nulls.
	if top > 2*items && top > 10 {
		return 0, "Cannot serialise table: excessively sparse array"
	}
	return top, ""
}

func (l *Interpreter) appendJSONArray(b []byte, t *lua.LTable, n, depth int) ([]byte, string) {
	b = append(b, '[')
	for i := 1; i <= n; i++ {
		if i > 1 {
			b = append(b, ',')
		}
		var fault string
		if b, fault = l.appendJSON(b, t.RawGet(lua.LNumber(i)), depth); fault != "" {
			return nil, fault
		}
	}
	return append(b, ']'), ""
}

func (l *Interpreter) appendJSONObject(b []byte, t *lua.LTable, depth int) ([]byte, string) {
	b = append(b, '{')
	first := true
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if !first {
			b = append(b, ',')
		}
		first = false
		var fault string
		switch k := k.(type) {
		case lua.LString:
			b = appendJSONString(b, string(k))
		case lua.LNumber:
			b = append(b, '"')
			if b, fault = appendJSONNumber(b, float64(k)); fault != "" {
				return nil, fault
			}
			b = append(b, '"')
		default:
			return nil, "Cannot serialise " + k.Type().String() + ": table key must be a number or string"
		}
		b = append(b, ':')
		if b, fault = l.appendJSON(b, v, depth); fault != "" {
			return nil, fault
		}
	}
	return append(b, '}'), ""
}

func appendJSONNumber(b []byte, v float64) ([]byte, string) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, "Cannot serialise number: must not be NaN or Inf"
	}
	return numfmt.AppendG14(b, v), ""
}

func appendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\\', '/':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			if c < 0x20 || c == 0x7f {
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}

func (l *Interpreter) jsonDecode(L *lua.LState) int {
	if L.GetTop() != 1 {
		raiseText(L, "bad argument #1 to 'decode' (expected 1 argument)")
	}
	var text string
	switch v := L.Get(1).(type) {
	case lua.LString, lua.LNumber:
		text = l.toText(v)
	default:
		raiseText(L, "bad argument #1 to 'decode' (string expected, got "+v.Type().String()+")")
	}
	v, fault := l.parseJSON(text)
	if fault != "" {
		raiseText(L, fault)
	}
	L.Push(v)
	return 1
}

func (l *Interpreter) parseJSON(text string) (lua.LValue, string) {
	if len(text) >= 2 && (text[0] == 0 || text[1] == 0) {
		return nil, "JSON parser does not support UTF-16 or UTF-32"
	}
	d := jsonDecoder{l: l, text: text}
	d.next()
	v := d.value()
	if d.fault == "" {
		if d.next(); d.kind != "T_END" {
			d.expected("the end")
		}
	}
	return v, d.fault
}

// jsonDecoder accepts the same texts as the server's decoder, which in places accepts more than JSON: hexadecimal and
// other C numbers, infinities, and raw control characters in strings.
type jsonDecoder struct {
	l     *Interpreter
	text  string
	pos   int
	depth int
	fault string

	// The current token.
	kind string // as named in error texts
	at   int
	num  float64
	str  string
}

func (d *jsonDecoder) expected(what string) {
	if d.fault == "" {
		d.fault = fmt.Sprintf("Expected %s but found %s at character %d", what, d.kind, d.at+1)
	}
}

// next reads one token. A bad one has its reason as kind.
func (d *jsonDecoder) next() {
	for d.pos < len(d.text) && strings.IndexByte(" \t\r\n", d.text[d.pos]) >= 0 {
		d.pos++
	}
	d.at = d.pos
	if d.pos >= len(d.text) || d.text[d.pos] == 0 {
		d.kind = "T_END" // a zero byte ends the text, as in C
		return
	}
	rest := d.text[d.pos:]
	switch rest[0] {
	case '{':
		d.punctuation("T_OBJ_BEGIN")
		return
	case '}':
		d.punctuation("T_OBJ_END")
		return
	case '[':
		d.punctuation("T_ARR_BEGIN")
		return
	case ']':
		d.punctuation("T_ARR_END")
		return
	case ',':
		d.punctuation("T_COMMA")
		return
	case ':':
		d.punctuation("T_COLON")
		return
	case '"':
		d.stringToken()
		return
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		d.numberToken()
		return
	}
	switch {
	case strings.HasPrefix(rest, "true"):
		d.word("T_BOOLEAN", "true")
		return
	case strings.HasPrefix(rest, "false"):
		d.word("T_BOOLEAN", "false")
		return
	case strings.HasPrefix(rest, "null"):
		d.word("T_NULL", "null")
		return
	}
	if rest[0] == '+' || numfmt.HasPrefixFold(rest, "inf") || numfmt.HasPrefixFold(rest, "nan") {
		d.numberToken()
		return
	}
	d.kind = "invalid token"
}

func (d *jsonDecoder) punctuation(kind string) {
	d.kind = kind
	d.pos++
}

func (d *jsonDecoder) word(kind, text string) {
	d.kind, d.str = kind, text
	d.pos += len(text)
}

func (d *jsonDecoder) numberToken() {
	v, n := numfmt.Strtod(d.text[d.pos:])
	if n == 0 {
		d.kind = "invalid number"
		return
	}
	d.kind, d.num = "T_NUMBER", v
	d.pos += n
}

func (d *jsonDecoder) stringToken() {
	i := d.pos + 1
	start := i
	for i < len(d.text) && d.text[i] != '"' && d.text[i] != '\\' && d.text[i] != 0 {
		i++
	}
	if i < len(d.text) && d.text[i] == '"' {
		d.kind, d.str, d.pos = "T_STRING", d.text[start:i], i+1
		return
	}
	out := []byte(d.text[start:i])
	for i < len(d.text) && d.text[i] != '"' && d.text[i] != 0 {
		if d.text[i] != '\\' {
			out = append(out, d.text[i])
			i++
			continue
		}
		i++
		if i >= len(d.text) {
			d.kind, d.at = "invalid escape code", i-1
			return
		}
		if c := d.text[i]; c == 'u' {
			r, n := jsonCodepoint(d.text[i-1:])
			if n == 0 {
				d.kind, d.at = "invalid unicode escape code", i-1
				return
			}
			out = appendCodepoint(out, r)
			i += n - 1
			continue
		}
		j := strings.IndexByte(`"\/bfnrt`, d.text[i])
		if j < 0 {
			d.kind, d.at = "invalid escape code", i-1
			return
		}
		out = append(out, "\"\\/\b\f\n\r\t"[j])
		i++
	}
	if i >= len(d.text) || d.text[i] == 0 {
		d.kind, d.at = "unexpected end of string", i
		return
	}
	d.kind, d.str, d.pos = "T_STRING", string(out), i+1
}

// jsonCodepoint reads \uXXXX, or two of them for a surrogate pair, and returns the bytes taken, 0 for a bad one.
func jsonCodepoint(s string) (rune, int) {
	r, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if r&0xf800 != 0xd800 {
		return r, 6
	}
	if r&0x400 != 0 || len(s) < 12 || s[6] != '\\' || s[7] != 'u' {
		return 0, 0
	}
	low, ok := hex4(s[6:])
	if !ok || low&0xfc00 != 0xdc00 {
		return 0, 0
	}
	return (r&0x3ff)<<10 + low&0x3ff + 0x10000, 12
}

func hex4(s string) (rune, bool) {
	if len(s) < 6 {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s[2:6]) {
		switch {
		case numfmt.IsDigit(c):
			r = r<<4 + rune(c-'0')
		case numfmt.IsHex(c):
			r = r<<4 + rune(c|0x20-'a') + 10
		default:
			return 0, false
		}
	}
	return r, true
}

func appendCodepoint(b []byte, r rune) []byte {
	return append(b, string(r)...)
}

func (d *jsonDecoder) value() lua.LValue {
	switch d.kind {
	case "T_STRING":
		return lua.LString(d.str)
	case "T_NUMBER":
		return lua.LNumber(d.num)
	case "T_BOOLEAN":
		return lua.LBool(d.str == "true")
	case "T_NULL":
		return d.l.null
	case "T_OBJ_BEGIN":
		return d.object()
	case "T_ARR_BEGIN":
		return d.array()
	}
	d.expected("value")
	return lua.LNil
}

func (d *jsonDecoder) enter() bool {
	if d.depth++; d.depth > maxJSONDepth {
		d.fault = fmt.Sprintf("Found too many nested data structures (%d) at character %d", d.depth, d.pos)
		return false
	}
	return true
}

func (d *jsonDecoder) object() lua.LValue {
	if !d.enter() {
		return lua.LNil
	}
	t := d.l.L.NewTable()
	d.next()
	if d.kind == "T_OBJ_END" {
		d.depth--
		return t
	}
	for {
		if d.kind != "T_STRING" {
			d.expected("object key string")
			return t
		}
		key := d.str
		if d.next(); d.kind != "T_COLON" {
			d.expected("colon")
			return t
		}
		d.next()
		v := d.value()
		if d.fault != "" {
			return t
		}
		t.RawSetString(key, v)
		if d.next(); d.kind == "T_OBJ_END" {
			d.depth--
			return t
		}
		if d.kind != "T_COMMA" {
			d.expected("comma or object end")
			return t
		}
		d.next()
	}
}

func (d *jsonDecoder) array() lua.LValue {
	if !d.enter() {
		return lua.LNil
	}
	t := d.l.L.NewTable()
	d.next()
	if d.kind == "T_ARR_END" {
		d.depth--
		return t
	}
	for i := 1; ; i++ {
		v := d.value()
		if d.fault != "" {
			return t
		}
		t.RawSetInt(i, v)
		if d.next(); d.kind == "T_ARR_END" {
			d.depth--
			return t
		}
		if d.kind != "T_COMMA" {
			d.expected("comma or array end")
			return t
		}
		d.next()
	}
}
