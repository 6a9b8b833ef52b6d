// Package numfmt converts between numbers and text as a Redis server does: integer and float arguments, scores, and
// numbers of Lua and of its JSON library.
package numfmt

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
)

var (
	// ErrNotFloat is returned for text that is not a number.
	ErrNotFloat  = errors.New("value is not a valid float")
	errNotFinite = errors.New("increment would produce NaN or Infinity")
)

// ParseInt reads an integer the way the server does: canonical decimal only, no sign but '-', no leading zeros.
func ParseInt(s string) (int64, bool) {
	if s == "" || len(s) > 20 {
		return 0, false
	}
	if s == "0" {
		return 0, true
	}
	d := s
	if d[0] == '-' {
		d = d[1:]
	}
	if d == "" || d[0] < '1' || d[0] > '9' {
		return 0, false
	}
	for i := 1; i < len(d); i++ {
		if d[i] < '0' || d[i] > '9' {
			return 0, false
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil
}

// ParseFloat reads a score or float argument: anything C's strtod takes in full, without NaN and leading space.
func ParseFloat(s string) (float64, bool) {
	if s == "" || IsSpace(s[0]) {
		return 0, false
	}
	v, n := Strtod(s)
	if n != len(s) || math.IsNaN(v) {
		return 0, false
	}
	return v, true
}

// IsSpace reports whether c is white space, as in C.
func IsSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// Strtod converts the longest numeric prefix of s, after white space, and returns how many bytes it took; 0 means none.
// It follows C: decimal, hexadecimal, inf, infinity, nan and nan(…), any case; overflow gives an infinity.
func Strtod(s string) (float64, int) {
	i := 0
	for i < len(s) && IsSpace(s[i]) {
		i++
	}
	start := i
	neg := false
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		neg = s[i] == '-'
		i++
	}
	sign := func(v float64) float64 {
		if neg {
			return math.Copysign(v, -1)
		}
		return v
	}
	switch {
	case HasPrefixFold(s[i:], "infinity"):
		return sign(math.Inf(1)), i + 8
	case HasPrefixFold(s[i:], "inf"):
		return sign(math.Inf(1)), i + 3
	case HasPrefixFold(s[i:], "nan"):
		n := i + 3
		if n < len(s) && s[n] == '(' {
			j := n + 1
			for j < len(s) && (s[j] == '_' || IsAlnum(s[j])) {
				j++
			}
			if j < len(s) && s[j] == ')' {
				n = j + 1
			}
		}
		return sign(math.NaN()), n
	}
	hex := i+1 < len(s) && s[i] == '0' && s[i+1]|0x20 == 'x'
	if hex {
		if v, n := hexFloat(s[i+2:]); n > 0 {
			return sign(v), i + 2 + n
		}
		return sign(0), i + 1
	}
	digits := 0
	j := i
	for j < len(s) && IsDigit(s[j]) {
		j++
		digits++
	}
	if j < len(s) && s[j] == '.' {
		j++
		for j < len(s) && IsDigit(s[j]) {
			j++
			digits++
		}
	}
	if digits == 0 {
		return 0, 0
	}
	if j < len(s) && s[j]|0x20 == 'e' {
		k := j + 1
		if k < len(s) && (s[k] == '+' || s[k] == '-') {
			k++
		}
		if k < len(s) && IsDigit(s[k]) {
			for k < len(s) && IsDigit(s[k]) {
				k++
			}
			j = k
		}
	}
	v, _ := strconv.ParseFloat(s[start:j], 64) // out of range yields the infinity that C yields
	return v, j
}

// hexFloat reads the digits after 0x.
func hexFloat(s string) (float64, int) {
	j, digits, dot := 0, 0, false
	for j < len(s) && (IsHex(s[j]) || s[j] == '.' && !dot) {
		if s[j] == '.' {
			dot = true
		} else {
			digits++
		}
		j++
	}
	if digits == 0 {
		return 0, 0
	}
	text := "0x" + s[:j]
	if j < len(s) && s[j]|0x20 == 'p' {
		k := j + 1
		if k < len(s) && (s[k] == '+' || s[k] == '-') {
			k++
		}
		if k < len(s) && IsDigit(s[k]) {
			for k < len(s) && IsDigit(s[k]) {
				k++
			}
			v, _ := strconv.ParseFloat("0x"+s[:k], 64)
			return v, k
		}
	}
	v, _ := strconv.ParseFloat(text+"p0", 64)
	return v, j
}

// IsDigit reports whether c is a decimal digit.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// IsHex reports whether c is a hexadecimal digit.
func IsHex(c byte) bool { return IsDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// IsAlnum reports whether c is an ASCII letter or digit.
func IsAlnum(c byte) bool { return IsDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' }

// HasPrefixFold reports whether s begins with lower, in any case of letters.
func HasPrefixFold(s, lower string) bool {
	return len(s) >= len(lower) && strings.EqualFold(s[:len(lower)], lower)
}

// asInteger returns v as an integer if that is exact and within half of the range of an int64, where the server prints
// doubles as integers.
func asInteger(v float64) (int64, bool) {
	if v < math.MinInt64/2 || v > math.MaxInt64/2 {
		return 0, false
	}
	n := int64(v)
	return n, float64(n) == v
}

// appendNumber writes a Lua number as the server hands it to a command: integers as such, all else by appendShortest.
func appendNumber(b []byte, v float64) []byte {
	if n, ok := asInteger(v); ok {
		return strconv.AppendInt(b, n, 10)
	}
	return appendShortest(b, v)
}

// FormatNumber returns a Lua number as the server hands it to a command.
func FormatNumber(v float64) string {
	var buf [32]byte
	return string(appendNumber(buf[:0], v))
}

// AppendScore writes a score or float reply.
func AppendScore(b []byte, v float64) []byte {
	if v == 0 && math.Signbit(v) {
		return append(b, "-0"...)
	}
	if math.IsNaN(v) {
		return append(b, "nan"...)
	}
	return appendNumber(b, v)
}

// FormatScore returns a score or float reply as text.
func FormatScore(v float64) string {
	var buf [32]byte
	return string(AppendScore(buf[:0], v))
}

// appendShortest writes the fewest digits that read back as v, with an exponent only where the server uses one.
func appendShortest(b []byte, v float64) []byte {
	if math.Signbit(v) {
		b = append(b, '-')
		v = math.Copysign(v, 1)
	}
	switch {
	case math.IsNaN(v):
		return append(b, "nan"...)
	case math.IsInf(v, 1):
		return append(b, "inf"...)
	case v == 0:
		return append(b, '0')
	}
	var buf [32]byte
	sci := strconv.AppendFloat(buf[:0], v, 'e', -1, 64)
	mant, expText, _ := strings.Cut(string(sci), "e")
	exp10, _ := strconv.Atoi(expText)
	digits := strings.Replace(mant, ".", "", 1)
	k := exp10 - len(digits) + 1 // v = digits × 10^k
	exp := exp10
	if exp < 0 {
		exp = -exp
	}
	switch {
	case k >= 0 && exp < len(digits)+7:
		b = append(b, digits...)
		for ; k > 0; k-- {
			b = append(b, '0')
		}
		return b
	case k < 0 && (k > -7 || exp < 4):
		if exp10 < 0 {
			b = append(b, "0."...)
			for i := -1; i > exp10; i-- {
				b = append(b, '0')
			}
			return append(b, digits...)
		}
		b = append(b, digits[:exp10+1]...)
		b = append(b, '.')
		return append(b, digits[exp10+1:]...)
	}
	b = append(b, digits[0])
	if len(digits) > 1 {
		b = append(b, '.')
		b = append(b, digits[1:]...)
	}
	b = append(b, 'e')
	if exp10 < 0 {
		b = append(b, '-')
	} else {
		b = append(b, '+')
	}
	return strconv.AppendInt(b, int64(exp), 10)
}

// AppendG14 writes v as C's "%.14g", which is how Lua and its JSON library turn numbers into text.
func AppendG14(b []byte, v float64) []byte { return AppendG(b, v, 14, false) }

// FormatG14 returns v as AppendG14 writes it.
func FormatG14(v float64) string {
	// The common case, small integers, has the same text without the detour over floating point.
	if n := int64(v); float64(n) == v && n > -1e14 && n < 1e14 && (n != 0 || !math.Signbit(v)) {
		return strconv.FormatInt(n, 10)
	}
	var buf [32]byte
	return string(AppendG14(buf[:0], v))
}

// AppendG writes v as C's "%.<prec>g"; alternate keeps trailing zeros as the '#' flag does.
func AppendG(b []byte, v float64, prec int, alternate bool) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		if math.Signbit(v) {
			b = append(b, '-')
		}
		if math.IsNaN(v) {
			return append(b, "nan"...)
		}
		return append(b, "inf"...)
	}
	if prec == 0 {
		prec = 1
	}
	sci := strconv.FormatFloat(v, 'e', prec-1, 64)
	mant, expText, _ := strings.Cut(sci, "e")
	exp, _ := strconv.Atoi(expText)
	if exp < -4 || exp >= prec {
		b = append(b, trimZeros(mant, alternate)...)
		b = append(b, 'e')
		return append(b, expText...)
	}
	return append(b, trimZeros(strconv.FormatFloat(v, 'f', prec-1-exp, 64), alternate)...)
}

func trimZeros(s string, keep bool) string {
	if keep || !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// AddDecimals adds two decimal numbers with the 64-bit mantissa that the server's long doubles have, and prints the sum
// without an exponent.
func AddDecimals(a, b string) (string, error) {
	x, err := longDouble(a)
	if err != nil {
		return "", err
	}
	y, err := longDouble(b)
	if err != nil {
		return "", err
	}
	if x.IsInf() || y.IsInf() {
		return "", errNotFinite
	}
	sum := new(big.Float).SetPrec(64).Add(x, y)
	text := trimZeros(sum.Text('f', 17), false)
	if text == "-0" {
		text = "0"
	}
	return text, nil
}

func longDouble(s string) (*big.Float, error) {
	if _, ok := ParseFloat(s); !ok {
		return nil, ErrNotFloat
	}
	x, _, err := big.ParseFloat(strings.ToLower(s), 0, 64, big.ToNearestEven)
	if err != nil {
		return nil, ErrNotFloat
	}
	return x, nil
}
