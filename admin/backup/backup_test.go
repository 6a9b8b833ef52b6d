package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/backup"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/workload"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// engineOf returns the URL of an engine of a kind with nothing in it.
func engineOf(t *testing.T, kind testserver.Kind) string {
	t.Helper()
	switch kind {
	case testserver.Embedded:
		return "embedded:" + filepath.Join(t.TempDir(), "engine")
	case testserver.OnCluster:
		return testserver.StartCluster(t, testserver.Valkey, 3).URL()
	}
	return testserver.Start(t, testserver.Options{Kind: kind}).URL()
}

func closed(t *testing.T, b *enginetest.Bench) {
	t.Helper()
	b.Client.Close()
	require.NoError(t, b.Engine.Close())
}

// killed restores in a process that dies at a step. It reports whether the restore was over before.
func killed(t *testing.T, file, url string, step int) (over bool) {
	t.Helper()
	c := exec.CommandContext(enginetest.Context(t), os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), fileVariable+"="+file, urlVariable+"="+url, stepVariable+"="+strconv.Itoa(step))
	out, err := c.CombinedOutput()
	if err != nil {
		require.Contains(t, err.Error(), "killed", "%s", out)
	}
	return err == nil
}

// Runs in all states are backed up, restored into another engine by processes that are killed at every step, and
// continue to their ends there; and the same from there into a directory.
func TestRunsInAllStatesAreRestored(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		ctx, prefix := enginetest.Context(t), enginetest.NewPrefix()
		config := backup.Config{Prefix: prefix}
		from, to := engineOf(t, kind), engineOf(t, kind)
		w := workload.New(t, 12)
		b := enginetest.Open(t, kind, from, prefix)
		w.Start(t, b)
		b.Check(t, invariant.AnyTime)
		if kind != testserver.Embedded {
			closed(t, b)
		}
		file := filepath.Join(t.TempDir(), "backup")
		written, err := backup.Write(ctx, from, file, config)
		require.NoError(t, err)
		require.Empty(t, written.NotSeen)
		require.GreaterOrEqual(t, written.Runs, int64(w.Runs()-1))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		require.Less(t, info.Size(), written.Bytes)
		checked, err := backup.Check(ctx, file)
		require.NoError(t, err)
		checked.NotSeen, written.NotSeen = nil, nil
		require.Equal(t, written, checked)

		_, err = backup.Restore(ctx, file, from, config)
		if kind == testserver.Embedded {
			require.Error(t, err) // it is locked
			closed(t, b)
			_, err = backup.Restore(ctx, file, from, config)
		}
		require.ErrorIs(t, err, backup.ErrNotEmpty)
		kills := 0
		for !killed(t, file, to, kills+1) {
			_, err := runtime.Open(ctx, to, runtime.OpenConfig{Prefix: prefix, AllowVolatile: true})
			require.ErrorIs(t, err, enginecore.ErrIncomplete)
			_, err = backup.Write(ctx, to, filepath.Join(t.TempDir(), "half"), config)
			require.ErrorIs(t, err, enginecore.ErrIncomplete)
			kills++
		}
		require.Greater(t, kills, 2)

		again := filepath.Join(t.TempDir(), "again")
		second, err := backup.Write(ctx, to, again, config)
		require.NoError(t, err)
		require.Equal(t, written.Digest, second.Digest)
		last := engineOf(t, testserver.Embedded)
		restored, err := backup.Restore(ctx, again, last, backup.Config{})
		require.NoError(t, err)
		require.Equal(t, []int{second.Keys, second.Keys}, []int{restored.Keys, restored.Written})

		w.Finish(t, enginetest.Open(t, kind, to, prefix))
	})
}

// A directory is backed up again and again while a program uses it and its log is replaced by snapshots. Each backup is
// of one moment: the runs that had been acknowledged before are there, and all records fit together.
func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	ctx, prefix := enginetest.Context(t), enginetest.NewPrefix()
	dir := t.TempDir()
	url := "embedded:" + filepath.Join(dir, "engine")
	b := enginetest.Open(t, testserver.Embedded, url, prefix)
	add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	f := flow.New[int, int]("adding")
	flow.Return(f, flow.Node(f, "b", add, flow.Node(f, "a", add, f.Input())))
	def, err := f.Build()
	require.NoError(t, err)
	b.KeepingWorker(t, []activity.Handler{add})
	var acknowledged atomic.Int64
	load, stop := context.WithCancel(ctx)
	starter := b.Run(t, "starter", func(context.Context) error {
		for i := int64(0); load.Err() == nil; i++ {
			if _, err := runtime.Start(ctx, b.Client, def, int(i), runtime.WithID(fmt.Sprint(i))); err != nil {
				return err
			}
			acknowledged.Store(i + 1)
		}
		return nil
	})
	for round := range 5 {
		enginetest.Eventually(t, func() string {
			if acknowledged.Load() < int64(40*(round+1)) {
				return "too few runs"
			}
			return ""
		})
		before := acknowledged.Load()
		file := filepath.Join(dir, fmt.Sprint("backup-", round))
		report, err := backup.Write(ctx, url, file, backup.Config{Prefix: prefix})
		require.NoError(t, err)
		require.GreaterOrEqual(t, report.Runs, before)
		other := "embedded:" + filepath.Join(dir, fmt.Sprint("other-", round))
		_, err = backup.Restore(ctx, file, other, backup.Config{})
		require.NoError(t, err)
		restored := enginetest.Open(t, testserver.Embedded, other, prefix)
		restored.Check(t, invariant.AnyTime)
		workers, err := restored.Client.Workers(ctx)
		require.NoError(t, err)
		require.Empty(t, workers, "workers of the engine that was backed up")
		worker := restored.KeepingWorker(t, []activity.Handler{add})
		for i := range before {
			run, err := runtime.Attach(restored.Client.Run("adding", fmt.Sprint(i)), def)
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.EqualValues(t, i+2, out)
		}
		require.NoError(t, worker.Stop())
		closed(t, restored)
	}
	stop()
	<-starter.Done()
	require.NoError(t, starter.Stop())
}

// A server that programs use is not backed up, nor is one restored into.
func TestServerInUse(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx, prefix := enginetest.Context(t), enginetest.NewPrefix()
		config, file := backup.Config{Prefix: prefix}, filepath.Join(t.TempDir(), "backup")
		b := enginetest.Open(t, kind, testserver.Database(t, kind), prefix)
		keeper := b.Keeper(t)
		enginetest.Eventually(t, func() string {
			if _, err := backup.Write(ctx, b.URL, file, config); err == nil {
				return "the keeper does not listen yet"
			}
			return ""
		})
		_, err := backup.Write(ctx, b.URL, file, config)
		require.ErrorIs(t, err, backup.ErrInUse)
		require.NoError(t, os.RemoveAll(file))
		require.NoError(t, keeper.Stop())
		_, err = backup.Write(ctx, b.URL, file, config)
		require.NoError(t, err)
		left, err := filepath.Glob(file + "*")
		require.NoError(t, err)
		require.Equal(t, []string{file}, left)
		b.Check(t, invariant.AnyTime)
	})
}

// No damage of a file passes: not a bit, not its end, not another file.
func TestDamage(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	ctx, dir := enginetest.Context(t), t.TempDir()
	b := enginetest.Open(t, testserver.Embedded, "embedded:"+filepath.Join(dir, "engine"), "p")
	workload.New(t, 1).Start(t, b)
	file := filepath.Join(dir, "backup")
	_, err := backup.Write(ctx, b.URL, file, backup.Config{Prefix: "p"})
	require.NoError(t, err)
	packed, err := os.ReadFile(file)
	require.NoError(t, err)
	in, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	whole, err := io.ReadAll(in)
	require.NoError(t, err)
	bad := filepath.Join(dir, "bad")
	rejected := func(what string, data []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(bad, data, 0o600))
		_, err := backup.Check(ctx, bad)
		require.ErrorIs(t, err, backup.ErrDamaged, what)
		to := filepath.Join(dir, "to")
		_, err = backup.Restore(ctx, bad, "embedded:"+to, backup.Config{})
		require.ErrorIs(t, err, backup.ErrDamaged, what)
		require.NoDirExists(t, to)
	}
	pack := func(data []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write(data)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	rejected("empty", nil)
	rejected("text", []byte("flowfabric backup 1\n"))
	rejected("no end", pack(whole[:len(whole)-1]))
	rejected("more", pack(append(slices.Clone(whole), 0)))
	rejected("twice", append(slices.Clone(packed), packed...))
	rng := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		at := rng.IntN(len(whole))
		flipped := slices.Clone(whole)
		flipped[at] ^= 1 << rng.IntN(8)
		rejected(fmt.Sprint("bit of byte ", at), pack(flipped))
		rejected(fmt.Sprint("cut at ", at), pack(whole[:at]))
		at = rng.IntN(len(packed))
		rejected(fmt.Sprint("packed cut at ", at), packed[:at])
	}
	_, err = backup.Restore(ctx, file, "embedded:"+filepath.Join(dir, "to"), backup.Config{Prefix: "other"})
	require.ErrorContains(t, err, "cannot be changed")
	_, err = backup.Check(ctx, filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = backup.Write(ctx, "embedded:"+filepath.Join(dir, "nothing"), file, backup.Config{})
	require.ErrorIs(t, err, os.ErrNotExist)
}
