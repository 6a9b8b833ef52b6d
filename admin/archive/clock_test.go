package archive_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// setSeen changes the last end of runs that the manifest records as seen.
func setSeen(t *testing.T, dir string, seen time.Time) {
	t.Helper()
	path := filepath.Join(dir, "manifest.json")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	manifest := make(map[string]any)
	require.NoError(t, json.Unmarshal(data, &manifest))
	require.Contains(t, manifest, "seen")
	manifest["seen"] = seen.UTC()
	data, err = json.Marshal(manifest)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// Runs that end after the clock of their server was ahead for a while are archived, however far it was ahead, and also
// when the archive has seen them only after that time has come.
func TestArchiveAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{3 * time.Hour, 365 * 24 * time.Hour} {
		b, clock := enginetest.WithClock(t)
		clock.Jump(time.Since(clock.Now())) // the engine and this process agree
		ctx, dir := enginetest.Context(t), t.TempDir()
		b.KeepingWorker(t, []activity.Handler{load})
		start(t, b, loading(t), "before", 1)
		write := func(want archive.Report) {
			t.Helper()
			report, err := archive.Write(ctx, b.Client, archive.Config{Dir: dir})
			require.NoError(t, err)
			require.Equal(t, want, report)
		}
		write(archive.Report{Archived: 1})
		clock.Jump(ahead)
		start(t, b, loading(t), "ahead", 2)
		write(archive.Report{Archived: 1, Known: 1})
		clock.Jump(-ahead)
		for i := range 3 {
			start(t, b, loading(t), fmt.Sprint("after", i), 3)
			write(archive.Report{Archived: 1, Known: 2 + i})
		}
	}
}

// Runs that an earlier Write left out, since the clocks of all machines were ahead then, are archived before they are
// purged, and when Write reads all runs, as it does when the clock was set back.
func TestArchiveOfRunsThatWereLeftOut(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t)
	now := time.Now()
	clock.Jump(now.Sub(clock.Now())) // the engine and this process agree
	ctx, dir := enginetest.Context(t), t.TempDir()
	b.KeepingWorker(t, []activity.Handler{load})
	write := func(c archive.Config, want archive.Report) {
		t.Helper()
		c.Dir = dir
		report, err := archive.Write(ctx, b.Client, c)
		require.NoError(t, err)
		require.Equal(t, want, report)
	}
	start(t, b, loading(t), "one", 1)
	write(archive.Config{}, archive.Report{Archived: 1})
	clock.Jump(-3 * time.Hour)
	start(t, b, loading(t), "two", 2)
	setSeen(t, dir, now)
	write(archive.Config{}, archive.Report{Known: 1})
	write(archive.Config{PurgeAfter: time.Hour}, archive.Report{Known: 1, Archived: 1})
	start(t, b, loading(t), "three", 3)
	setSeen(t, dir, now)
	write(archive.Config{Rescan: true}, archive.Report{Known: 2, Archived: 1})
	start(t, b, loading(t), "four", 4)
	setSeen(t, dir, now.Add(time.Hour))
	write(archive.Config{PurgeAfter: time.Hour}, archive.Report{Known: 3, Archived: 1, Purged: 3})
}
