package runcheck_test

import (
	"bytes"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/flowtest/runcheck"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// FuzzRead reads any file as exported runs. Runs that were read and are exported again are read as the same.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"flow":"order","run":"1","state":"running","nodes":[{"name":"a","activity":"x","state":"running","input":{"codec":"json","size":2,"json":{}}}]}` + "\n{}\n",
		`{"nodes":[{"result":{"codec":"json","size":9,"text":"{\"a\"","truncated":true}},{"result":{"codec":"raw","data":"AA=="}}]}`,
		"null", "[]", `{"nodes":null}{`, `{"created_at":"0001-01-01T00:00:00Z"}`, "\xff", `{"nodes":[{"input":{"codec":"json","json":null}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		list, ok := read(file)
		if !ok {
			return
		}
		first := exported(t, list)
		again, ok := read(first)
		require.True(t, ok, "%s", first)
		require.Equal(t, string(first), string(exported(t, again)))
	})
}

func read(file []byte) (list []*runtime.RunDescription, ok bool) {
	for d, err := range runcheck.Read(bytes.NewReader(file)) {
		if err != nil {
			return list, false
		}
		list = append(list, d)
	}
	return list, true
}

func exported(t *testing.T, list []*runtime.RunDescription) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, runcheck.Export(&b, withoutErrors(slices.Values(list))))
	return b.Bytes()
}

func withoutErrors(list iter.Seq[*runtime.RunDescription]) iter.Seq2[*runtime.RunDescription, error] {
	return func(yield func(*runtime.RunDescription, error) bool) {
		for d := range list {
			if !yield(d, nil) {
				return
			}
		}
	}
}
