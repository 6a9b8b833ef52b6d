package archive_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest/runcheck"
	"github.com/flowfabric/flowfabric-go/internal/dirlock"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// load is an activity that logs, and fails for 0.
var load = activity.New("load", func(ctx context.Context, n int) (int, error) {
	activity.Logger(ctx).Info("loading", "number", n)
	if n == 0 {
		return 0, activity.NonRetryable(errors.New("nothing to load"))
	}
	return 10 * n, nil
})

func loading(t testing.TB) *flow.Definition[int, int] {
	t.Helper()
	f := flow.New[int, int]("loading", flow.Tag("team.name", "census"))
	flow.Return(f, flow.Node(f, "load", load, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func mapping(t testing.TB) *flow.Definition[[]int, []int] {
	t.Helper()
	f := flow.New[[]int, []int]("mapping")
	flow.Return(f, flow.Map(f, "each", load, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// start starts a run and waits for its end.
func start[In, Out any](t testing.TB, b *enginetest.Bench, def *flow.Definition[In, Out], id string, in In) *runtime.Run[Out] {
	t.Helper()
	ctx := enginetest.Context(t)
	run, err := runtime.Start(ctx, b.Client, def, in, runtime.WithID(id))
	require.NoError(t, err)
	_, err = run.Result(ctx)
	if err != nil {
		require.ErrorIs(t, err, runtime.ErrRunFailed)
	}
	return run
}

func entries(t testing.TB, dir string) (names []string) {
	t.Helper()
	a, err := archive.Open(dir)
	require.NoError(t, err)
	for e, err := range a.Entries("") {
		require.NoError(t, err)
		names = append(names, e.Run)
	}
	return names
}

// The archive has the records that the engine had of a run, also after the engine has purged it.
func TestArchive(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, dir := enginetest.Context(t), filepath.Join(t.TempDir(), "runs")
		b.KeepingWorker(t, []activity.Handler{load})
		def := loading(t)
		start(t, b, def, "good", 4)
		failed := start(t, b, def, "failed", 0)
		start(t, b, mapping(t), "parent", []int{1, 2})
		open, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("open"), runtime.StartAt(time.Now().Add(time.Hour)))
		require.NoError(t, err)

		report, err := archive.Write(ctx, b.Client, archive.Config{Dir: dir})
		require.NoError(t, err)
		require.Equal(t, archive.Report{Archived: 4}, report, "with the child run")
		report, err = archive.Write(ctx, b.Client, archive.Config{Dir: dir})
		require.NoError(t, err)
		require.Equal(t, archive.Report{Known: 4}, report)

		require.NoError(t, failed.Rerun(ctx, fabrictype.RerunFailed))
		_, err = failed.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		report, err = archive.Write(ctx, b.Client, archive.Config{Dir: dir, PurgeAfter: 1})
		require.NoError(t, err)
		require.Equal(t, archive.Report{Archived: 1, Known: 3, Purged: 3}, report)
		for _, run := range []string{"good", "failed"} {
			_, err = b.Client.Run("loading", run).Describe(ctx)
			require.ErrorIs(t, err, engine.ErrRunNotFound)
		}
		_, err = open.Describe(ctx)
		require.NoError(t, err)

		a, err := archive.Open(dir)
		require.NoError(t, err)
		require.Len(t, entries(t, dir), 5)
		good, err := a.Run("loading", "good")
		require.NoError(t, err)
		d := good.Description()
		require.Equal(t, fabrictype.RunSucceeded, d.State)
		require.Equal(t, "40", string(d.Result.Bytes()))
		require.Equal(t, "4", string(d.Nodes[0].Input.Bytes()))
		require.Equal(t, map[string]string{"team.name": "census"}, good.Tags)
		require.Contains(t, string(good.Definition), `"load"`)
		require.Equal(t, fabrictype.EventRunSubmitted, good.Events[0].Kind)
		require.Equal(t, fabrictype.EventRunSucceeded, good.Events[len(good.Events)-1].Kind)
		require.Equal(t, "loading", good.Logs["load"][0].Message)
		require.JSONEq(t, `{"number": 4}`, string(good.Logs["load"][0].Attrs))
		again, err := a.Run("loading", "failed")
		require.NoError(t, err)
		require.Equal(t, 1, again.Description().Reruns)
		require.Equal(t, "load", again.FailedNode)
		parent, err := a.Run("mapping", "parent")
		require.NoError(t, err)
		child := parent.Description().Nodes[0].Child
		items, err := a.Run(child.Flow, child.Run)
		require.NoError(t, err)
		require.Len(t, items.Description().Nodes, 2)
		_, err = a.Run("loading", "open")
		require.ErrorIs(t, err, archive.ErrNotFound)

		var problems []runcheck.Problem
		for p, err := range (runcheck.Program{}).Check(a.Descriptions("loading")) {
			require.NoError(t, err)
			problems = append(problems, p)
		}
		require.Empty(t, problems, "the runs are over")
	})
}

// A run whose child run is not in the archive stays.
func TestPurgeWaitsForTheArchive(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, dir := enginetest.Context(t), t.TempDir()
		b.KeepingWorker(t, []activity.Handler{load})
		def := loading(t)
		start(t, b, def, "early", 1)
		late := ""
		report, err := archive.WriteWith(ctx, b.Client, archive.Config{Dir: dir, PurgeAfter: 1}, func(what string) {
			if what == "written" && late == "" {
				late = "late" // it ends after the runs were listed, and before the purge
				start(t, b, def, late, 2)
			}
		})
		require.NoError(t, err)
		require.Equal(t, archive.Report{Archived: 1, Purged: 1}, report)
		_, err = b.Client.Run("loading", "late").Describe(ctx)
		require.NoError(t, err)
		report, err = archive.Write(ctx, b.Client, archive.Config{Dir: dir, PurgeAfter: 1})
		require.NoError(t, err)
		require.Equal(t, archive.Report{Archived: 1, Purged: 1}, report)
		require.Equal(t, []string{"early", "late"}, entries(t, dir))
	})
}

// Damaged files are reported, and invalid configs are refused, before anything is written.
func TestDamageAndMisuse(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	ctx, dir := enginetest.Context(t), t.TempDir()
	b := enginetest.New(t, testserver.Embedded)
	b.KeepingWorker(t, []activity.Handler{load})
	start(t, b, loading(t), "one", 1)
	c := archive.Config{Dir: dir}

	none := filepath.Join(dir, "none")
	_, err := archive.Write(ctx, b.Client, archive.Config{PurgeAfter: -1, SegmentRuns: -1, SegmentBytes: -1})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	for _, field := range []string{"Dir", "PurgeAfter", "SegmentRuns", "SegmentBytes"} {
		require.ErrorContains(t, err, field)
	}
	_, err = archive.Open(none)
	require.ErrorIs(t, err, os.ErrNotExist)
	lock, err := dirlock.Lock(dir)
	require.NoError(t, err)
	_, err = archive.Write(ctx, b.Client, c)
	require.ErrorIs(t, err, archive.ErrLocked)
	require.NoError(t, lock.Close())

	for name, text := range map[string]string{
		"manifest.json": `{"format": 2}`, "tmp-runs-000001.index.jsonl": "half", "runs-000001.jsonl.gz": "half",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.Empty(t, entries(t, dir))
	_, err = archive.Write(ctx, b.Client, c)
	require.NoError(t, err)
	a, err := archive.Open(dir)
	require.NoError(t, err)
	whole, err := a.Run("loading", "one")
	require.NoError(t, err)

	segment := filepath.Join(dir, "runs-000001.jsonl.gz")
	data, err := os.ReadFile(segment)
	require.NoError(t, err)
	for i := range data {
		broken := append([]byte(nil), data...)
		broken[i] ^= 0x10
		require.NoError(t, os.WriteFile(segment, broken, 0o600))
		// The name, time and system in the head of gzip and the unused bits of its last byte are not checked by it.
		if read, err := a.Run("loading", "one"); err == nil {
			require.Equal(t, whole, read, i)
		} else {
			require.ErrorIs(t, err, archive.ErrDamaged, i)
		}
	}
	require.NoError(t, os.WriteFile(segment, data[:len(data)-1], 0o600))
	_, err = archive.Write(ctx, b.Client, c)
	require.ErrorIs(t, err, archive.ErrDamaged)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), []byte("half"), 0o600))
	_, err = archive.Open(dir)
	require.ErrorIs(t, err, archive.ErrDamaged)
}
