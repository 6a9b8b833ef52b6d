package errordetail

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzDecode reads any bytes as stored details of a failure. Details that are written again are read as the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`[{"name":"declined","value":{"code":5}},{"name":"context.deadline","omitted_bytes":9}]`), "declined")
	f.Add([]byte(`[{"name":"","value":null}]`), "")
	f.Add([]byte(`{}`), "x")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		list := Decode(data)
		_ = Is(list, NewSentinel(name, "text"), nil)
		var all []Detail
		require.True(t, As(list, &all))
		var other *Sentinel
		_ = As(list, &other)
		_ = Is(list, errors.New(name), nil)
		stored := Encode(list)
		require.Equal(t, string(stored), string(Encode(Decode(stored))))
	})
}
