package archive

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A run that is larger than the memory that Write needs is archived line by line. One that has changed while it was
// read leaves nothing in the segment.
func TestRunsAreStreamed(t *testing.T) { // it measures the heap
	const pages, most = 8, 5 << 20 // of a MiB each, which compression does not shorten by much
	random := rand.NewChaCha8([32]byte{1})
	bytes := make([]byte, 3<<18)
	page := func() *runtime.RunDescription {
		_, _ = random.Read(bytes)
		text, err := json.Marshal(bytes) // 1 MiB of base64
		require.NoError(t, err)
		d := &runtime.RunDescription{RunDetail: fabrictype.RunDetail{Flow: "large", Run: "r"}}
		d.Result = &fabrictype.Value{Codec: "json", JSON: text, Size: len(text)}
		return d
	}
	heap := func() uint64 {
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	dir := t.TempDir()
	var p pending
	e := Entry{Flow: "large", Run: "r", FlowID: "id", ClosedAt: time.UnixMilli(1)}
	small := func(add func(line) error) error {
		return add(line{Description: &runtime.RunDescription{RunDetail: fabrictype.RunDetail{Run: "r"}}})
	}
	require.NoError(t, p.add(dir, e, small))
	size, before := p.size, heap()
	large := func(end error) func(add func(line) error) error {
		return func(add func(line) error) error {
			for i := range pages {
				if err := add(line{Description: page()}); err != nil {
					return err
				}
				if i%4 == 3 {
					require.Less(t, heap(), before+most, "after %d MiB", i+1)
				}
			}
			return end
		}
	}
	require.ErrorIs(t, p.add(dir, e, large(errChanged)), errChanged)
	require.Equal(t, size, p.size)
	file, err := os.Stat(p.file.Name())
	require.NoError(t, err)
	require.Equal(t, size, file.Size())
	require.NoError(t, p.add(dir, e, large(nil)))
	require.NoError(t, p.add(dir, e, small))
	s, _, err := p.segment(1)
	require.NoError(t, err)
	require.Equal(t, 3, s.Runs)
	require.NoError(t, p.put(dir, "segment"))
	segment, err := os.Open(filepath.Join(dir, "segment"))
	require.NoError(t, err)
	defer func() { require.NoError(t, segment.Close()) }()
	for i, want := range []int{1, pages, 1} {
		run, err := readRun(segment, p.entries[i])
		require.NoError(t, err)
		require.Len(t, run.Pages, want)
	}
	require.NoError(t, p.drop())
}
