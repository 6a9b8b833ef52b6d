package resp

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
)

// Limits of one request, as a server has them.
const (
	maxRequestWords = 1 << 20
	MaxBulkBytes    = 512 << 20
	maxInlineBytes  = 64 << 10
)

// ErrIncomplete means that more bytes are needed.
var ErrIncomplete = errors.New("incomplete request")

// protocolError sends the reason and closes the connection.
type protocolError string

// Error is the server's text.
func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// ParseRequest reads one request from the front of buf and returns its words and length. No words and no error is an
// empty request. spans is scratch space that is handed back.
func ParseRequest(buf []byte, spans []Span) (words []string, n int, _ []Span, err error) {
	if len(buf) == 0 {
		return nil, 0, spans, ErrIncomplete
	}
	if buf[0] != '*' {
		words, n, err = parseInline(buf)
		return words, n, spans, err
	}
	count, pos, err := parseHeader(buf, 1, "invalid multibulk length", maxRequestWords)
	if err != nil {
		return nil, 0, spans, err
	}
	if count <= 0 {
		return nil, pos, spans, nil
	}
	spans = spans[:0]
	for i := 0; i < count; i++ {
		if pos >= len(buf) {
			return nil, 0, spans, ErrIncomplete
		}
		if buf[pos] != '$' {
			return nil, 0, spans, protocolError("expected '$', got '" + string(rune(buf[pos])) + "'")
		}
		size, next, err := parseHeader(buf, pos+1, "invalid bulk length", MaxBulkBytes)
		if err != nil {
			return nil, 0, spans, err
		}
		if size < 0 {
			return nil, 0, spans, protocolError("invalid bulk length")
		}
		if next+size+2 > len(buf) {
			return nil, 0, spans, ErrIncomplete
		}
		spans = append(spans, Span{next, next + size})
		pos = next + size + 2
	}
	words = make([]string, count)
	for i, sp := range spans {
		words[i] = string(buf[sp.from:sp.to])
	}
	return words, pos, spans, nil
}

// Span is the place of a word in a request.
type Span struct{ from, to int }

// parseHeader reads the digits of a length up to its line end.
func parseHeader(buf []byte, pos int, what string, limit int) (v, next int, err error) {
	i, neg := pos, false
	if i < len(buf) && buf[i] == '-' {
		neg = true
		i++
	}
	digits := i
	for i < len(buf) && buf[i] >= '0' && buf[i] <= '9' {
		if v = v*10 + int(buf[i]-'0'); v > limit {
			return 0, 0, protocolError(what)
		}
		i++
	}
	if i >= len(buf) {
		if i-pos > 32 {
			return 0, 0, protocolError(what)
		}
		return 0, 0, ErrIncomplete
	}
	if buf[i] != '\r' || i == digits {
		return 0, 0, protocolError(what)
	}
	if i+1 >= len(buf) {
		return 0, 0, ErrIncomplete
	}
	if neg {
		v = -v
	}
	return v, i + 2, nil
}

// parseInline reads a request typed as a plain line.
func parseInline(buf []byte) ([]string, int, error) {
	end := bytes.IndexByte(buf, '\n')
	if end < 0 {
		if len(buf) > maxInlineBytes {
			return nil, 0, protocolError("too big inline request")
		}
		return nil, 0, ErrIncomplete
	}
	var words []string
	for _, f := range bytes.Fields(buf[:end]) {
		words = append(words, string(bytes.Trim(f, `"'`)))
	}
	if isHTTP(words) {
		return nil, 0, protocolError("this port is an engine's, and speaks no HTTP")
	}
	return words, end + 1, nil
}

// isHTTP reports whether a line belongs to an HTTP request. A page in a browser can post to every port of the machine,
// and its body would be commands.
func isHTTP(words []string) bool {
	if len(words) == 0 {
		return false
	}
	switch strings.ToUpper(words[0]) {
	case "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "HOST:":
		return true
	}
	return len(words) == 3 && strings.HasPrefix(words[2], "HTTP/")
}

// AppendHeader writes the line that begins a value of a kind: n is its length, or the number of its elements.
func AppendHeader(b []byte, kind byte, n int) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\r', '\n')
}

// AppendBulk writes a string of any bytes.
func AppendBulk(b []byte, s string) []byte {
	b = AppendHeader(b, '$', len(s))
	b = append(b, s...)
	return append(b, '\r', '\n')
}

func appendLine(b []byte, kind byte, s string) []byte {
	b = append(b, kind)
	// A line break inside would end the reply early.
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == '\r' || c == '\n' {
			b = append(b, ' ')
		} else {
			b = append(b, c)
		}
	}
	return append(b, '\r', '\n')
}

// AppendReply encodes r for protocol version resp, 2 or 3.
func AppendReply(b []byte, r *Reply, resp int) []byte {
	switch r.Kind {
	case KindNil:
		if resp == 3 {
			return append(b, "_\r\n"...)
		}
		return append(b, "$-1\r\n"...)
	case KindNilArray:
		if resp == 3 {
			return append(b, "_\r\n"...)
		}
		return append(b, "*-1\r\n"...)
	case KindInt:
		b = append(b, ':')
		b = strconv.AppendInt(b, r.Int, 10)
		return append(b, '\r', '\n')
	case KindBulk:
		return AppendBulk(b, r.Str)
	case KindStatus:
		return appendLine(b, '+', r.Str)
	case KindError:
		return appendLine(b, '-', r.Str)
	case KindBool:
		if resp == 3 {
			if r.Int != 0 {
				return append(b, "#t\r\n"...)
			}
			return append(b, "#f\r\n"...)
		}
		return AppendHeader(b, ':', int(r.Int))
	case KindDouble:
		if resp == 3 {
			b = append(b, ',')
			b = numfmt.AppendScore(b, r.Float())
			return append(b, '\r', '\n')
		}
		return AppendBulk(b, numfmt.FormatScore(r.Float()))
	case KindVerbatim:
		if resp == 3 {
			b = AppendHeader(b, '=', len(r.Str)+4)
			b = append(b, "txt:"...)
			b = append(b, r.Str...)
			return append(b, '\r', '\n')
		}
		return AppendBulk(b, r.Str)
	case KindMap:
		if resp == 3 {
			return appendElems(AppendHeader(b, '%', len(r.Elems)/2), r.Elems, resp)
		}
		if r.Int == MapOfLists {
			return appendNested(b, r.Elems, resp)
		}
	case KindSet:
		if resp == 3 {
			return appendElems(AppendHeader(b, '~', len(r.Elems)), r.Elems, resp)
		}
	case KindPush:
		if resp == 3 {
			return appendElems(AppendHeader(b, '>', len(r.Elems)), r.Elems, resp)
		}
	case KindPairs:
		if resp == 3 {
			return appendNested(b, r.Elems, resp)
		}
	case KindArray:
	}
	return appendElems(AppendHeader(b, '*', len(r.Elems)), r.Elems, resp)
}

func appendElems(b []byte, elems []Reply, resp int) []byte {
	for i := range elems {
		b = AppendReply(b, &elems[i], resp)
	}
	return b
}

// appendNested encodes a flat list of pairs as an array of arrays.
func appendNested(b []byte, elems []Reply, resp int) []byte {
	b = AppendHeader(b, '*', len(elems)/2)
	for i := 0; i+1 < len(elems); i += 2 {
		b = append(b, "*2\r\n"...)
		b = appendElems(b, elems[i:i+2], resp)
	}
	return b
}
