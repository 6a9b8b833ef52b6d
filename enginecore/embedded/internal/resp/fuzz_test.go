package resp

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParseRequest reads any bytes as requests, whole and cut in two. A request is read as the same wherever the bytes
// were cut, and one that is written again is read as the same.
func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n", "PING a 'b c'\r\n", "*0\r\n", "*-1\r\n", "*1\r\n$-1\r\n", "*1048577\r\n",
		"*1\r\n$536870913\r\n", "*1\r\n$0\r\n\r\n", "*1\r\n+OK\r\n", "\r\n", "\n", "*", "*1\r", "*\r\n", "*00000000000000000000000000000001\r\n",
		"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", "*99999999999999999999\r\n",
	} {
		f.Add([]byte(seed), uint16(len(seed)/2))
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint16) {
		whole, end := requests(t, data)
		cut := min(int(at), len(data))
		first, _ := requests(t, data[:cut])
		if end == nil {
			require.LessOrEqual(t, len(first), len(whole))
			for i, words := range first {
				require.Equal(t, whole[i], words, "the beginning of a request is another request")
			}
		}
		var again []byte
		for _, words := range whole {
			again = AppendHeader(again, '*', len(words))
			for _, w := range words {
				again = AppendBulk(again, w)
			}
		}
		same, err := requests(t, again)
		require.NoError(t, err)
		require.Equal(t, whole, same)
	})
}

// requests reads all requests with words from data. It returns an error for bytes that are not requests.
func requests(t *testing.T, data []byte) (list [][]string, err error) {
	var spans []Span
	for len(data) > 0 {
		words, n, scratch, err := ParseRequest(data, spans)
		spans = scratch
		if errors.Is(err, ErrIncomplete) {
			return list, nil
		}
		if err != nil {
			var protocol protocolError
			require.ErrorAs(t, err, &protocol)
			return list, err
		}
		require.True(t, n > 0 && n <= len(data), "%d of %d bytes", n, len(data))
		data = data[n:]
		if len(words) > 0 {
			list = append(list, words)
		}
	}
	return list, nil
}

// TestParseRequest reads a request that arrives byte by byte.
func TestParseRequest(t *testing.T) {
	const request = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
	for n := range len(request) {
		_, _, _, err := ParseRequest([]byte(request[:n]), nil)
		require.ErrorIs(t, err, ErrIncomplete)
	}
	words, n, _, err := ParseRequest([]byte(request+"*1"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"GET", "k"}, words)
	require.Len(t, request, n)
	words, _, _, err = ParseRequest([]byte("PING 'x'\r\n"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"PING", "x"}, words)
	for _, bad := range []string{"*x\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n", "*2000000\r\n"} {
		_, _, _, err := ParseRequest([]byte(bad), nil)
		require.ErrorContains(t, err, "Protocol error: ", bad)
	}
}

// TestAppendReply writes replies in both versions of the protocol.
func TestAppendReply(t *testing.T) {
	pair := []Reply{Bulk("m"), Double(1.5)}
	for _, c := range []struct {
		reply     Reply
		resp2, v3 string
	}{
		{Nil, "$-1\r\n", "_\r\n"},
		{Reply{Kind: KindNilArray}, "*-1\r\n", "_\r\n"},
		{Int(7), ":7\r\n", ":7\r\n"},
		{Error("ERR a\nb"), "-ERR a b\r\n", "-ERR a b\r\n"},
		{Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"},
		{Reply{Kind: KindMap, Elems: pair}, "*2\r\n$1\r\nm\r\n$3\r\n1.5\r\n", "%1\r\n$1\r\nm\r\n,1.5\r\n"},
		{Reply{Kind: KindMap, Elems: pair, Int: MapOfLists}, "*1\r\n*2\r\n$1\r\nm\r\n$3\r\n1.5\r\n", "%1\r\n$1\r\nm\r\n,1.5\r\n"},
		{Reply{Kind: KindPairs, Elems: pair}, "*2\r\n$1\r\nm\r\n$3\r\n1.5\r\n", "*1\r\n*2\r\n$1\r\nm\r\n,1.5\r\n"},
		{Reply{Kind: KindPush, Elems: pair[:1]}, "*1\r\n$1\r\nm\r\n", ">1\r\n$1\r\nm\r\n"},
	} {
		require.Equal(t, c.resp2, string(AppendReply(nil, &c.reply, 2)))
		require.Equal(t, c.v3, string(AppendReply(nil, &c.reply, 3)))
	}
}
