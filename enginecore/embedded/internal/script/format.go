package script

import (
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
)

// formatSpec is one conversion of string.format.
type formatSpec struct {
	minus, plus, space, alt, zero bool
	width, prec                   int // prec < 0 = not given
	verb                          byte
}

// stringFormat is string.format with C's conversions.
func (l *Interpreter) stringFormat(L *lua.LState) int {
	format := L.CheckString(1)
	arg := 1
	var out []byte
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			out = append(out, format[i])
			continue
		}
		if i++; i < len(format) && format[i] == '%' {
			out = append(out, '%')
			continue
		}
		spec, next := parseFormat(format, i)
		i = next
		arg++
		if arg > L.GetTop() {
			raiseText(L, "bad argument #"+strconv.Itoa(arg)+" to 'format' (no value)")
		}
		switch spec.verb {
		case 's':
			s := l.formatText(L, arg)
			if spec.prec >= 0 && spec.prec < len(s) {
				s = s[:spec.prec]
			}
			out = spec.pad(out, "", s, false)
		case 'q':
			out = appendQuoted(out, l.formatText(L, arg))
		case 'c':
			out = spec.pad(out, "", string([]byte{byte(int64(l.formatArg(L, arg)))}), false)
		case 'd', 'i':
			out = spec.integer(out, truncate(l.formatArg(L, arg)))
		case 'o', 'u', 'x', 'X':
			out = spec.unsigned(out, l.formatArg(L, arg))
		case 'e', 'E', 'f', 'g', 'G':
			out = spec.float(out, l.formatArg(L, arg))
		default:
			raiseText(L, "invalid option '%"+string(rune(spec.verb))+"' to 'format'")
		}
	}
	L.Push(lua.LString(out))
	return 1
}

func parseFormat(format string, i int) (formatSpec, int) {
	spec := formatSpec{prec: -1}
flags:
	for ; i < len(format); i++ {
		switch format[i] {
		case '-':
			spec.minus = true
		case '+':
			spec.plus = true
		case ' ':
			spec.space = true
		case '#':
			spec.alt = true
		case '0':
			spec.zero = true
		default:
			break flags
		}
	}
	digits := func() int {
		n := 0
		for k := 0; k < 2 && i < len(format) && numfmt.IsDigit(format[i]); k++ {
			n = n*10 + int(format[i]-'0')
			i++
		}
		return n
	}
	spec.width = digits()
	if i < len(format) && format[i] == '.' {
		i++
		spec.prec = digits()
	}
	if i < len(format) {
		spec.verb = format[i]
	}
	return spec, i
}

func (l *Interpreter) formatArg(L *lua.LState, i int) float64 {
	switch v := L.Get(i).(type) {
	case lua.LNumber:
		return float64(v)
	case lua.LString:
		if n, ok := luaNumber(string(v)); ok {
			return n
		}
	}
	raiseText(L, "bad argument #"+strconv.Itoa(i)+" to 'format' (number expected, got "+L.Get(i).Type().String()+")")
	return 0
}

func (l *Interpreter) formatText(L *lua.LState, i int) string {
	switch v := L.Get(i).(type) {
	case lua.LString, lua.LNumber:
		return l.toText(v)
	}
	raiseText(L, "bad argument #"+strconv.Itoa(i)+" to 'format' (string expected, got "+L.Get(i).Type().String()+")")
	return ""
}

// pad writes sign and body in the width of the conversion.
func (f formatSpec) pad(out []byte, sign, body string, zeros bool) []byte {
	fill := f.width - len(sign) - len(body)
	switch {
	case fill <= 0:
		return append(append(out, sign...), body...)
	case f.minus:
		return append(append(append(out, sign...), body...), strings.Repeat(" ", fill)...)
	case zeros:
		return append(append(append(out, sign...), strings.Repeat("0", fill)...), body...)
	}
	return append(append(append(out, strings.Repeat(" ", fill)...), sign...), body...)
}

func (f formatSpec) sign(neg bool) string {
	switch {
	case neg:
		return "-"
	case f.plus:
		return "+"
	case f.space:
		return " "
	}
	return ""
}

// digits applies the minimum number of digits.
func (f formatSpec) digits(s string) string {
	if f.prec == 0 && s == "0" {
		return ""
	}
	if n := f.prec - len(s); n > 0 {
		return strings.Repeat("0", n) + s
	}
	return s
}

func (f formatSpec) integer(out []byte, v int64) []byte {
	u := uint64(v)
	if v < 0 {
		u = -u
	}
	return f.pad(out, f.sign(v < 0), f.digits(strconv.FormatUint(u, 10)), f.zero && f.prec < 0)
}

func (f formatSpec) unsigned(out []byte, v float64) []byte {
	u := uint64(truncate(v))
	if v >= 1<<63 && v < 1<<64 {
		u = uint64(v)
	}
	prefix, s := "", ""
	switch f.verb {
	case 'o':
		s = strconv.FormatUint(u, 8)
		if f.alt && s[0] != '0' {
			s = "0" + s
		}
	case 'u':
		s = strconv.FormatUint(u, 10)
	default:
		s = strconv.FormatUint(u, 16)
		if f.alt && u != 0 {
			prefix = "0x"
		}
		if f.verb == 'X' {
			s, prefix = strings.ToUpper(s), strings.ToUpper(prefix)
		}
	}
	return f.pad(out, prefix, f.digits(s), f.zero && f.prec < 0)
}

func (f formatSpec) float(out []byte, v float64) []byte {
	prec := f.prec
	if prec < 0 {
		prec = 6
	}
	neg := math.Signbit(v)
	abs := math.Abs(v)
	var body string
	special := math.IsNaN(v) || math.IsInf(v, 0)
	switch {
	case math.IsNaN(v):
		body = "nan"
	case special:
		body = "inf"
	case f.verb == 'f':
		body = strconv.FormatFloat(abs, 'f', prec, 64)
	case f.verb|0x20 == 'e':
		body = strconv.FormatFloat(abs, 'e', prec, 64)
	default:
		body = string(numfmt.AppendG(nil, abs, prec, f.alt))
	}
	if f.verb == 'E' || f.verb == 'G' {
		body = strings.ToUpper(body)
	}
	return f.pad(out, f.sign(neg), body, f.zero && !special)
}

func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"', '\\', '\n':
			out = append(out, '\\', s[i])
		case '\r':
			out = append(out, `\r`...)
		case 0:
			out = append(out, `\000`...)
		default:
			out = append(out, s[i])
		}
	}
	return append(out, '"')
}
