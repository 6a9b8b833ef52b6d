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
