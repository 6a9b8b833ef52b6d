package servertest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// smallDisk returns a directory on a file system of 6 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=6m"); err != nil {
		t.Skip("mounting a file system is refused here; package embedded tests made-up faults:", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	return disk
}

// TestEndOnFullDisk ends all listeners of an embedded engine on a full disk.
func TestEndOnFullDisk(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	disk := smallDisk(t)
	b := enginetest.Open(t, testserver.Embedded, "embedded:"+filepath.Join(disk, "data"), enginetest.NewPrefix())
	endWhileRefused(t, enginetest.Context(t), b, func() (restore func()) {
		ballast := filepath.Join(disk, "ballast")
		require.Error(t, os.WriteFile(ballast, make([]byte, 8<<20), 0o600))
		def := newHoldWork("").define(t, "fill", activity.Lane("nobody"))
		enginetest.Eventually(t, func() string {
			soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := runtime.Start(soon, b.Client, def, strings.Repeat("x", 50_000)); err == nil {
				return "the disk is not full yet"
			}
			return ""
		})
		require.ErrorIs(t, b.Engine.Check(t.Context()), syscall.ENOSPC)
		return func() {
			require.NoError(t, os.Remove(ballast))
			eventuallyReady(t, b.Engine.Check)
		}
	})
}

// TestFullDisk runs flows on a disk that becomes full and gets room again. Check reports both, runs continue by
// themselves, and a result that was returned is the result at any later time, also after the directory was opened
// again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	ballast := filepath.Join(disk, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 4<<20), 0o600))

	// Every attempt has a different result, so a second one shows.
	draw := activity.New("draw", func(context.Context, int) (string, error) {
		text := make([]byte, 45<<10)
		_, _ = rand.Read(text)
		return base64.StdEncoding.EncodeToString(text), nil
	})
	f := flow.New[int, string]("draws")
	flow.Return(f, flow.Node(f, "draw", draw, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	config := runtime.LocalConfig{
		URL: "embedded:" + filepath.Join(disk, "data") + "?fsync=always", Activities: def.Handlers(),
		Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	}
	local, err := runtime.OpenLocal(t.Context(), config)
	require.NoError(t, err)
	defer func() { require.NoError(t, local.Close()) }()

	var mu sync.Mutex
	told := map[string]string{}
	ctx, stop := context.WithCancel(t.Context())
	var drivers sync.WaitGroup
	for d := range 3 {
		drivers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				run, err := runtime.Start(ctx, local.Client(), def, i, runtime.WithID(fmt.Sprintf("run-%d-%d", d, i)))
				if err != nil {
					continue
				}
				if out, err := run.Result(ctx); err == nil {
					mu.Lock()
					told[run.ID()] = out
					mu.Unlock()
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(told)
	}
	enginetest.Eventually(t, func() string {
		if local.Engine().Check(t.Context()) == nil {
			return "the disk is not full yet"
		}
		return ""
	})
	require.ErrorIs(t, local.Engine().Check(t.Context()), syscall.ENOSPC)
	full := count()
	require.NotZero(t, full)
	require.NoError(t, os.Remove(ballast))
	eventuallyReady(t, local.Engine().Check)
	enginetest.Eventually(t, func() string {
		if n := count(); n < full+5 {
			return fmt.Sprintf("%d results, %d when the disk was full", n, full)
		}
		return ""
	})
	stop()
	drivers.Wait()

	check := func() {
		for id, want := range told {
			run, err := runtime.Attach(local.Client().Run(def.Name(), id), def)
			require.NoError(t, err)
			got, err := run.Result(t.Context())
			require.NoError(t, err)
			require.True(t, got == want, "%s has another result than it returned before", id)
		}
	}
	check()
	require.NoError(t, local.Close())
	local, err = runtime.OpenLocal(t.Context(), config)
	require.NoError(t, err)
	check()
}
