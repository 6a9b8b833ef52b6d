package archive_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// threeSegments writes an archive of the runs a, b and c, in a segment each, and purges them.
func threeSegments(t *testing.T) (b *enginetest.Bench, c archive.Config) {
	t.Helper()
	b, c = enginetest.New(t, testserver.Embedded), archive.Config{Dir: t.TempDir(), SegmentRuns: 1, PurgeAfter: 1}
	b.KeepingWorker(t, []activity.Handler{load})
	for i, id := range []string{"a", "b", "c"} {
		start(t, b, loading(t), id, i+1)
	}
	report, err := archive.Write(enginetest.Context(t), b.Client, c)
	require.NoError(t, err)
	require.Equal(t, archive.Report{Archived: 3, Purged: 3}, report)
	return b, c
}

// files returns the content of the files of a directory by their names.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	content := make(map[string]string)
	for _, f := range list {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		content[f.Name()] = string(data)
	}
	return content
}

// segmentsOf returns the part of a manifest that lists the segments.
func segmentsOf(t *testing.T, manifest string) string {
	t.Helper()
	var m struct {
		Segments json.RawMessage `json:"segments"`
	}
	require.NoError(t, json.Unmarshal([]byte(manifest), &m))
	return string(m.Segments)
}

// Segments without a manifest are damage, and none of them is removed. The remedy that the error names lists them
// again.
func TestMissingManifest(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	b, c := threeSegments(t)
	path := filepath.Join(c.Dir, "manifest.json")
	manifest, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	before := files(t, c.Dir)

	_, err = archive.Open(c.Dir)
	require.ErrorIs(t, err, archive.ErrDamaged)
	_, err = archive.Write(ctx, b.Client, c)
	require.ErrorIs(t, err, archive.ErrDamaged)
	const cure = `{"format": 2}`
	for _, part := range []string{"manifest.json is missing", "3 segments", "runs-000001", "from a copy", cure} {
		require.ErrorContains(t, err, part)
	}
	require.Equal(t, before, files(t, c.Dir))

	require.NoError(t, os.WriteFile(path, []byte(cure), 0o600))
	report, err := archive.Write(ctx, b.Client, c)
	require.NoError(t, err)
	require.Equal(t, archive.Report{}, report)
	require.Equal(t, []string{"a", "b", "c"}, entries(t, c.Dir))
	require.JSONEq(t, segmentsOf(t, string(manifest)), segmentsOf(t, files(t, c.Dir)["manifest.json"]))
}

// A manifest that is older than the segments, from a copy, gets those that it does not list. A file of a later segment
// than the one that a killed Write can have left unfinished is never removed.
func TestOlderManifest(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	b, c := threeSegments(t)
	older := filepath.Join(t.TempDir(), "older")
	require.NoError(t, os.CopyFS(older, os.DirFS(c.Dir)))
	path := func(name string) string { return filepath.Join(c.Dir, name) }
	restore := func() {
		t.Helper()
		require.NoError(t, os.RemoveAll(c.Dir))
		require.NoError(t, os.CopyFS(c.Dir, os.DirFS(older)))
		require.NoError(t, os.WriteFile(path("manifest.json"), []byte(`{"format": 2}`), 0o600))
	}

	for _, missing := range []string{"runs-000002.index.jsonl", "runs-000002.jsonl.gz"} {
		restore()
		require.NoError(t, os.Remove(path(missing)))
		before := files(t, c.Dir)
		_, err := archive.Write(ctx, b.Client, c)
		require.ErrorIs(t, err, archive.ErrDamaged)
		require.ErrorContains(t, err, "runs-000003")
		require.ErrorContains(t, err, "runs-000002")
		require.Equal(t, before, files(t, c.Dir))
	}

	restore()
	require.NoError(t, os.Truncate(path("runs-000003.jsonl.gz"), 10))
	before := files(t, c.Dir)
	_, err := archive.Write(ctx, b.Client, c)
	require.ErrorIs(t, err, archive.ErrDamaged)
	require.ErrorContains(t, err, "runs-000003.jsonl.gz has 10 bytes")
	require.Equal(t, before, files(t, c.Dir))

	restore()
	start(t, b, loading(t), "d", 4)
	report, err := archive.Write(ctx, b.Client, c)
	require.NoError(t, err)
	require.Equal(t, archive.Report{Archived: 1, Purged: 1}, report)
	require.Equal(t, []string{"a", "b", "c", "d"}, entries(t, c.Dir))
	a, err := archive.Open(c.Dir)
	require.NoError(t, err)
	for i, id := range []string{"a", "b", "c", "d"} {
		run, err := a.Run("loading", id)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(10*(i+1)), string(run.Description().Result.Bytes()))
		require.Equal(t, fabrictype.RunSucceeded, run.State)
	}
}

// A damaged segment does not keep the runs of other segments from being read. The list of runs names its file, and
// continues; Write refuses until the file is restored.
func TestDamagedSegment(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	b, c := threeSegments(t)
	whole := files(t, c.Dir)
	for _, damage := range []struct {
		file string
		do   func(path string) error
		text string
		// listed are the runs whose entries can be read.
		listed []string
	}{
		{"runs-000002.jsonl.gz", func(path string) error { return os.Truncate(path, 10) }, "has 10 bytes", []string{"a", "b", "c"}},
		{"runs-000002.jsonl.gz", os.Remove, "is missing", []string{"a", "b", "c"}},
		{"runs-000002.index.jsonl", func(path string) error { return os.Truncate(path, 10) }, "has 10 bytes", []string{"a", "c"}},
		{"runs-000002.index.jsonl", os.Remove, "is missing", []string{"a", "c"}},
	} {
		t.Run(damage.file+" "+damage.text, func(t *testing.T) {
			require.NoError(t, damage.do(filepath.Join(c.Dir, damage.file)))
			before := files(t, c.Dir)
			a, err := archive.Open(c.Dir)
			require.NoError(t, err)
			var listed []string
			var faults []error
			for e, err := range a.Entries("") {
				if err != nil {
					faults = append(faults, err)
					require.Equal(t, []string{"a"}, listed, "at its segment")
					continue
				}
				listed = append(listed, e.Run)
			}
			require.Equal(t, damage.listed, listed)
			require.Len(t, faults, 1)
			require.ErrorIs(t, faults[0], archive.ErrDamaged)
			require.ErrorContains(t, faults[0], damage.file+" "+damage.text)

			for i, id := range []string{"a", "b", "c"} {
				run, err := a.Run("loading", id)
				switch {
				case id == "b":
					require.ErrorIs(t, err, archive.ErrDamaged)
					require.ErrorContains(t, err, "runs-000002")
					require.Nil(t, run)
					continue
				case id == "a" && len(damage.listed) == 2: // its last end may be in the index that cannot be read
					require.ErrorIs(t, err, archive.ErrDamaged)
					require.ErrorContains(t, err, "may have a later end")
				default:
					require.NoError(t, err)
				}
				require.Equal(t, fmt.Sprint(10*(i+1)), string(run.Description().Result.Bytes()))
			}
			_, err = a.Run("loading", "none")
			require.Equal(t, len(damage.listed) == 3, errors.Is(err, archive.ErrNotFound), "%v", err)

			_, err = archive.Write(ctx, b.Client, c)
			require.ErrorIs(t, err, archive.ErrDamaged)
			require.ErrorContains(t, err, damage.file+" "+damage.text)
			require.ErrorContains(t, err, "restore it from a copy")
			require.Equal(t, before, files(t, c.Dir))
			require.NoError(t, os.WriteFile(filepath.Join(c.Dir, damage.file), []byte(whole[damage.file]), 0o600))
			_, err = archive.Write(ctx, b.Client, c)
			require.NoError(t, err)
		})
	}
	after := files(t, c.Dir)
	for _, content := range []map[string]string{whole, after} { // which differ in the times of the restored files
		delete(content, "manifest.json")
	}
	require.Equal(t, whole, after)
}
