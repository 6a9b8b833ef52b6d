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

// isPlain reports whether a text is the same in JSON, between quotes, and in the encoding of package encoding/json. It
// reads eight bytes at a time.
func isPlain(text string) bool {
	all, i := uint64(0), 0
	for ; i+8 <= len(text); i += 8 {
		s := text[i : i+8]
		word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		if hasLess(word, ' ')|hasLess(word^('"'*eachByte), 1)|hasLess(word^('\\'*eachByte), 1) != 0 {
			return false
		}
		all |= word
	}
	for ; i < len(text); i++ {
		c := text[i]
		if c < ' ' || c == '"' || c == '\\' {
			return false
		}
		all |= uint64(c)
	}
	return all&(utf8.RuneSelf*eachByte) == 0 || isPlainUTF8(text)
}

// eachByte has the lowest bit of each byte of a word.
const eachByte = 0x0101010101010101

// hasLess returns a word that is not 0 if a byte of another word is less than limit, which is at most 128.
func hasLess(word, limit uint64) uint64 {
	return (word - limit*eachByte) &^ word & (utf8.RuneSelf * eachByte)
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
		if last < 1 || data[0] != '"' || data[last] != '"' {
			return value, false
		}
		text := string(data[1:last])
		if !isPlain(text) {
			return value, false
		}
		*v, ok = text, true
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
