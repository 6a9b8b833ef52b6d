package bulkjob

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRecords parses any bytes as the stored spec and progress of a job, and checks that a parsed record survives
// encoding and parsing unchanged.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"form":1,"id":"job","action":{"kind":"cancel","reason":"x"},"query":"flow=a","search":{},"rate":5,"actor":"ann"}`))
	f.Add([]byte(`{"done":1,"failures":[{"flow":"f","run":"r","error":"e"}],"cursor":"c:1:x"}`))
	f.Add([]byte(`{"form":2}`))
	f.Add([]byte(`{"form":1,"rate":1e400}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ReadSpec(data); err == nil {
			text, err := s.Encode()
			require.NoError(t, err)
			again, err := ReadSpec(text)
			require.NoError(t, err)
			second, err := again.Encode()
			require.NoError(t, err)
			require.Equal(t, string(text), string(second))
		}
		if p, err := readProgress(data); err == nil {
			text, err := json.Marshal(p)
			require.NoError(t, err)
			again, err := readProgress(text)
			require.NoError(t, err)
			require.Equal(t, p.Cursor, again.Cursor)
			require.Equal(t, p.Done, again.Done)
		}
	})
}
