package backup_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/workload"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The steps of docs/how-to/back-up-and-restore.md for a server in use: its snapshot, or a copy of its log, goes into
// the folder of another server. Keepers check the records there, a lease that was held lapses and its execution is
// taken over, and all runs continue to their ends.
func TestServerFromASnapshot(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		for name, take := range map[string]func(*testing.T, *testserver.Server, string) []string{
			"snapshot": takeSnapshot, "log": takeLog,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				restoreServer(t, kind, take)
			})
		}
	})
}

func restoreServer(t *testing.T, kind testserver.Kind, take func(*testing.T, *testserver.Server, string) []string) {
	ctx, prefix := enginetest.Context(t), enginetest.NewPrefix()
	server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true})
	b := enginetest.Open(t, kind, server.URL(), prefix)
	w := workload.New(t, 3)
	w.Start(t, b)
	begun, lost := make(chan struct{}), make(chan struct{})
	var attempts atomic.Int64
	hold := activity.New("hold", func(ctx context.Context, n int) (int, error) {
		if attempts.Add(1) == 1 {
			close(begun)
			<-lost
		}
		return n + 1, nil
	}, activity.Lane("held"))
	f := flow.New[int, int]("held")
	flow.Return(f, flow.Node(f, "hold", hold, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	_, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithID("held"))
	require.NoError(t, err)
	worker := b.Worker(t, []activity.Handler{hold}, runtime.WorkerConfig{Lease: 2 * time.Second, Lanes: []string{"held"}})
	<-begun

	dir := t.TempDir()
	settings := take(t, server, dir)
	server.Kill() // and it never restarts
	close(lost)
	restored := testserver.Start(t, testserver.Options{Kind: kind, Args: append(settings, "dir "+dir)})
	b = enginetest.Open(t, kind, restored.URL(), prefix)
	b.KeepingWorker(t, []activity.Handler{hold}, runtime.WorkerConfig{Lanes: []string{"held"}})
	w.Finish(t, b)
	run, err := runtime.Attach(b.Client.Run("held", "held"), def)
	require.NoError(t, err)
	out, err := run.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, out)
	require.EqualValues(t, 2, attempts.Load(), "the one that was lost with its server, and the one that took over")
	require.Contains(t, b.Log(), "event=keeper.restart_noticed")
	_ = worker.Stop() // its server is gone
	b.Settle(t)
}

// takeSnapshot copies a snapshot that the server writes while it is in use.
func takeSnapshot(t *testing.T, server *testserver.Server, dir string) []string {
	before := server.Command(t, "LASTSAVE")
	server.Command(t, "BGSAVE", "SCHEDULE")
	enginetest.Eventually(t, func() string {
		info := server.Command(t, "INFO", "persistence")
		if !strings.Contains(info, "rdb_bgsave_in_progress:0") || !strings.Contains(info, "rdb_last_bgsave_status:ok") {
			return "the snapshot is not complete"
		}
		if _, err := os.Stat(filepath.Join(server.Dir(), "dump.rdb")); err != nil {
			return "no file since " + before
		}
		return ""
	})
	copyFile(t, filepath.Join(server.Dir(), "dump.rdb"), filepath.Join(dir, "dump.rdb"))
	return []string{"appendonly no"}
}

// takeLog copies the files of the log while no rewrite replaces them.
func takeLog(t *testing.T, server *testserver.Server, dir string) []string {
	server.Command(t, "CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
	require.Contains(t, server.Command(t, "INFO", "persistence"), "aof_rewrite_in_progress:0")
	files, err := os.ReadDir(filepath.Join(server.Dir(), "appendonlydir"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "appendonlydir"), 0o700))
	for _, file := range files {
		copyFile(t, filepath.Join(server.Dir(), "appendonlydir", file.Name()), filepath.Join(dir, "appendonlydir", file.Name()))
	}
	return []string{"appendonly yes"}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}
