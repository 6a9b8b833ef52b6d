package resp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
