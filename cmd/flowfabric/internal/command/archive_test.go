package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Runs are archived and purged, and read again without an engine.
func TestArchive(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, x := enginetest.Context(t), onEngine(t, b)
		dir := filepath.Join(t.TempDir(), "runs")
		load := activity.New("load", func(ctx context.Context, n int) (int, error) {
			activity.Logger(ctx).Info("loading\x1b[31m", "number", n)
			if n == 0 {
				return 0, activity.NonRetryable(errors.New("disk\x1b[31m full"))
			}
			return 10 * n, nil
		})
		f := flow.New[int, int]("import")
		flow.Return(f, flow.Node(f, "load", load, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.KeepingWorker(t, []activity.Handler{load})
		for i, id := range []string{"bad", "good"} {
			run, err := runtime.Start(ctx, b.Client, def, i, runtime.WithID(id))
			require.NoError(t, err)
			if _, err := run.Result(ctx); i == 0 {
				require.ErrorIs(t, err, runtime.ErrRunFailed)
			}
		}
		require.Contains(t, x.ok("archive", "write", dir), "archived: 2, already archived: 0")
		code, _, stderr := x.run("archive", "write", dir, "--purge-after", "1ns")
		require.Equal(t, shell.ExitUsage, code)
		require.Contains(t, stderr, ": give --yes to do so\n")
		require.Equal(t, float64(2), x.lines("archive", "write", dir, "--purge-after", "1ns", "--yes")[0]["purged"])
		require.Empty(t, x.lines("run", "list"))

		offline := nowhere(t)
		listed := offline.lines("archive", "list", dir)
		require.Len(t, listed, 2)
		require.Equal(t, []any{"import", "bad", "failed"}, []any{listed[0]["flow"], listed[0]["run"], listed[0]["state"]})
		require.Len(t, offline.lines("archive", "list", dir, "--limit", "1"), 1)
		require.Empty(t, offline.lines("archive", "list", dir, "--flow", "other"))
		text := offline.ok("archive", "show", dir, "import", "good", "--events", "--logs")
		requireHarmless(t, text)
		for _, part := range []string{"succeeded", "result: 10", "flow_success", "loading", `{"number":1}`} {
			require.Contains(t, text, part)
		}
		require.Contains(t, offline.ok("archive", "show", dir, "import", "bad"), "full")
		whole := offline.lines("archive", "show", dir, "import", "good")[0]
		for _, field := range []string{"definition", "pages", "events", "logs"} {
			require.NotEmpty(t, whole[field], field)
		}
		code, _, stderr = offline.run("archive", "show", dir, "import", "none")
		require.Equal(t, shell.ExitNotFound, code)
		require.Contains(t, stderr, "not in the archive")

		require.NoError(t, os.Remove(filepath.Join(dir, "runs-000001.jsonl.gz")))
		code, stdout, stderr := offline.run("archive", "list", dir, "-o", "name")
		require.Equal(t, shell.ExitFailed, code)
		require.Equal(t, "import/bad\nimport/good\n", stdout, "the index is there")
		require.Contains(t, stderr, "runs-000001.jsonl.gz is missing: restore it from a copy")
	})
}

// An archive is written from an engine: a server has no command for it.
func TestArchiveNeedsAnEngine(t *testing.T) {
	t.Parallel()
	x := nowhere(t)
	code, _, stderr := x.run("archive", "write", "d", "--url", "http://localhost:1")
	require.Equal(t, shell.ExitUsage, code)
	require.Contains(t, stderr, "needs an engine")
	code, _, stderr = x.run("archive", "write", "d", "--purge-after", "-1s")
	require.Equal(t, shell.ExitUsage, code)
	require.Contains(t, stderr, "must not be negative")
	code, _, stderr = x.run("archive", "list", filepath.Join(t.TempDir(), "none"))
	require.NotEqual(t, shell.ExitDone, code)
	require.Contains(t, stderr, "none")
}
