package archive_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Environment variables of a process that writes an archive and kills itself at a step.
const (
	urlVariable    = "FLOWFABRIC_ARCHIVE_URL"
	prefixVariable = "FLOWFABRIC_ARCHIVE_PREFIX"
	dirVariable    = "FLOWFABRIC_ARCHIVE_DIR"
	stepVariable   = "FLOWFABRIC_ARCHIVE_STEP"
)

func TestMain(m *testing.M) {
	if os.Getenv(dirVariable) != "" {
		if err := writeAndDie(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	enginetest.Main(m)
}

// writeAndDie writes the archive, and kills the process before the step with the number of the environment.
func writeAndDie(ctx context.Context) error {
	last, err := strconv.Atoi(os.Getenv(stepVariable))
	if err != nil {
		return err
	}
	engine, err := runtime.Open(ctx, os.Getenv(urlVariable), runtime.OpenConfig{
		Prefix: os.Getenv(prefixVariable), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	client, err := runtime.NewClient(engine)
	if err != nil {
		return err
	}
	steps := 0
	_, err = archive.WriteWith(ctx, client, killedConfig(os.Getenv(dirVariable)), func(string) {
		if steps++; steps == last {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {} // until the signal arrives
		}
	})
	client.Close()
	return errors.Join(err, engine.Close())
}

func killedConfig(dir string) archive.Config {
	return archive.Config{Dir: dir, SegmentRuns: 2, PurgeAfter: 1}
}

// A Write that is killed before any of its steps, and repeated, has each run once, and has purged none that it had
// not.
func TestKilledWrite(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		const runs = 5
		var names []string
		for i := range runs {
			names = append(names, fmt.Sprint("run-", i))
		}
		dir, prefix := t.TempDir(), enginetest.NewPrefix()
		url := "embedded:" + filepath.Join(t.TempDir(), "engine")
		if kind != testserver.Embedded {
			url = enginetest.URL(t, kind)
		}
		t.Run("runs", func(t *testing.T) {
			b := enginetest.Open(t, kind, url, prefix)
			b.KeepingWorker(t, []activity.Handler{load})
			for i, name := range names {
				start(t, b, loading(t), name, i+1)
			}
		})
		killed := 0
		for step := 1; ; step++ {
			done := writeInProcess(t, url, prefix, dir, step)
			archived := entries(t, dir)
			require.Equal(t, len(archived), len(slices.Compact(slices.Sorted(slices.Values(archived)))), "twice: %s", archived)
			t.Run(fmt.Sprint("after step ", step), func(t *testing.T) {
				b := enginetest.Open(t, kind, url, prefix)
				for _, name := range names {
					_, err := b.Client.Run("loading", name).Describe(enginetest.Context(t))
					if err != nil {
						require.ErrorIs(t, err, engine.ErrRunNotFound)
						require.Contains(t, archived, name, "purged and not archived")
					}
					if done {
						require.Error(t, err, "%s is archived and not purged", name)
					}
				}
			})
			if done {
				break
			}
			killed++
		}
		require.Greater(t, killed, 3)
		require.ElementsMatch(t, names, entries(t, dir))
		a, err := archive.Open(dir)
		require.NoError(t, err)
		for _, name := range names {
			run, err := a.Run("loading", name)
			require.NoError(t, err)
			require.Equal(t, fabrictype.RunSucceeded, run.Description().State)
		}
		t.Logf("killed %d times", killed)
	})
}

// writeInProcess reports whether a process that is to be killed before a step has come to its end.
func writeInProcess(t *testing.T, url, prefix, dir string, step int) bool {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(program)
	command.Env = append(os.Environ(), urlVariable+"="+url, prefixVariable+"="+prefix, dirVariable+"="+dir,
		stepVariable+"="+strconv.Itoa(step))
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == -1 {
		return false // by the signal
	}
	require.NoError(t, err, "%s", output)
	return true
}
