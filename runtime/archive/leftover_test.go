package archive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/archive"
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

// Segments without a manifest are damage, and none of them is removed. What the error says can be done lists them again.
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
	const cure = `{"format": 1}`
	for _, part := range []string{"manifest.json is missing", "3 segments", "runs-000001", "from a copy", cure} {
		require.ErrorContains(t, err, part)
	}
	require.Equal(t, before, files(t, c.Dir))

	require.NoError(t, os.WriteFile(path, []byte(cure), 0o600))
	report, err := archive.Write(ctx, b.Client, c)
	require.NoError(t, err)
	require.Equal(t, archive.Report{}, report)
	require.Equal(t, []string{"a", "b", "c"}, entries(t, c.Dir))
	require.Equal(t, string(manifest), files(t, c.Dir)["manifest.json"])
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
		require.NoError(t, os.WriteFile(path("manifest.json"), []byte(`{"format": 1}`), 0o600))
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
		require.Equal(t, fmt.Sprint(10*(i+1)), string(run.Description().Result.Data))
		require.Equal(t, runtime.RunSucceeded, run.State)
	}
}
