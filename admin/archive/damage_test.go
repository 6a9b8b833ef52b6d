package archive_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// change gives a file other content of the same size. With keepTime its modification time stays, as when a disk returns
// other bytes than were written.
func change(t *testing.T, path string, keepTime bool, to func(data []byte)) {
	t.Helper()
	file, err := os.Stat(path)
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	to(data)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	modified := file.ModTime()
	if !keepTime {
		modified = modified.Add(time.Second)
	}
	require.NoError(t, os.Chtimes(path, modified, modified))
}

// No run is purged of which the archive has other content than was written, in any of its files; of a parent, none
// whose child run is damaged. Nothing is added to an archive of which a damaged file was touched.
func TestDamagedRunsAreNotPurged(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.KeepingWorker(t, []activity.Handler{load})
		start(t, b, mapping(t), "parent", []int{1, 2})
		master := t.TempDir()
		report, err := archive.Write(ctx, b.Client, archive.Config{Dir: master})
		require.NoError(t, err)
		require.Equal(t, archive.Report{Archived: 2}, report, "with the child run")

		const segment, index = "runs-000001.jsonl.gz", "runs-000001.index.jsonl"
		for name, damage := range map[string]struct {
			file string
			to   func(data []byte)
		}{
			"whole segment":     {segment, func(data []byte) { clear(data) }},
			"first run":         {segment, func(data []byte) { data[40] ^= 0x10 }},
			"sum of the last":   {segment, func(data []byte) { data[len(data)-6] ^= 0x01 }},
			"name in the index": {index, func(data []byte) { copy(data[bytes.Index(data, []byte(`"parent"`)):], `"pasent"`) }},
			"whole index":       {index, func(data []byte) { clear(data) }},
		} {
			for _, keepTime := range []bool{true, false} {
				dir := filepath.Join(t.TempDir(), "runs")
				require.NoError(t, os.CopyFS(dir, os.DirFS(master)))
				_, err := archive.Write(ctx, b.Client, archive.Config{Dir: dir}) // compares the copies, and notes their times
				require.NoError(t, err)
				change(t, filepath.Join(dir, damage.file), keepTime, damage.to)

				report, err := archive.Write(ctx, b.Client, archive.Config{Dir: dir, PurgeAfter: 1})
				require.ErrorIs(t, err, archive.ErrDamaged, name)
				require.ErrorContains(t, err, "runs-000001", name)
				require.Zero(t, report.Archived+report.Purged, name)
				if !keepTime {
					_, err = archive.Write(ctx, b.Client, archive.Config{Dir: dir})
					require.ErrorIs(t, err, archive.ErrDamaged, name)
				}
			}
		}
		report, err = archive.Write(ctx, b.Client, archive.Config{Dir: master, PurgeAfter: 1})
		require.NoError(t, err)
		require.Equal(t, archive.Report{Known: 2, Purged: 1}, report)
	})
}

// Write reads the indexes of those segments alone whose runs it meets, however large the archive is: it does not notice
// that the others cannot be read.
func TestWriteReadsNoOtherIndex(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	b, c := threeSegments(t)
	for _, name := range []string{"runs-000001.index.jsonl", "runs-000002.index.jsonl"} {
		change(t, filepath.Join(c.Dir, name), true, func(data []byte) { clear(data) })
	}
	enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), time.Millisecond)
	start(t, b, loading(t), "d", 4)
	report, err := archive.Write(enginetest.Context(t), b.Client, c)
	require.NoError(t, err)
	require.Equal(t, archive.Report{Archived: 1, Purged: 1}, report)
}
