package activityspec

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// EncodeScalar encodes a text, an int, an int64 or a bool as [EncodeJSON] does, without reflection. ok is false for
// other types, and for texts that need an escape or are not UTF-8.
func EncodeScalar[T any](value T) (data []byte, ok bool) {
	switch v := any(&value).(type) {
	case *string:
		if !isPlain(*v) {
			return nil, false
		}
		data = append(make([]byte, 0, len(*v)+2), '"')
		return append(append(data, *v...), '"'), true
	case *int:
		return encodeInt(int64(*v)), true
	case *int64:
		return encodeInt(*v), true
	case *bool:
		return strconv.AppendBool(nil, *v), true
	}
	return nil, false
}

func encodeInt(n int64) []byte {
	var digits [20]byte
	return bytes.Clone(strconv.AppendInt(digits[:0], n, 10))
}

// isPlain reports whether a text is the same in JSON, between quotes, and in the encoding of package encoding/json.
func isPlain[T ~string | ~[]byte](text T) bool {
	all := byte(0)
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c == '"' || c == '\\' {
			return false
		}
		all |= c
	}
	return all < utf8.RuneSelf || isPlainUTF8(string(text))
}

// isPlainUTF8 reports whether a text is UTF-8 without the line separators of JavaScript, which encoding/json escapes.
func isPlainUTF8(text string) bool {
	return utf8.ValidString(text) && !strings.Contains(text, "\u2028") && !strings.Contains(text, "\u2029")
}

// DecodeScalar decodes a text, an int, an int64 or a bool as encoding/json does, without reflection. ok is false for
// other types, and for data that is not in the form of [EncodeScalar].
func DecodeScalar[T any](data []byte) (value T, ok bool) {
	switch v := any(&value).(type) {
	case *string:
		last := len(data) - 1
		if last < 1 || data[0] != '"' || data[last] != '"' || !isPlain(data[1:last]) {
			return value, false
		}
		*v, ok = string(data[1:last]), true
	case *int:
		var n int64
		n, ok = decodeInt(data)
		*v = int(n)
		ok = ok && int64(*v) == n
	case *int64:
		*v, ok = decodeInt(data)
	case *bool:
		*v = string(data) == "true"
		ok = *v || string(data) == "false"
	}
	return value, ok
}

// maxIntDigits is how many digits each int64 can have.
const maxIntDigits = 18

// decodeInt reads digits without a leading zero, with a sign before them if the number is negative.
func decodeInt(data []byte) (n int64, ok bool) {
	digits := bytes.TrimPrefix(data, []byte("-"))
	if len(digits) == 0 || len(digits) > maxIntDigits || digits[0] == '0' && len(data) > 1 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if len(digits) < len(data) {
		n = -n
	}
	return n, true
}
