package move_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin/move"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/workload"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Environment variables of a process that moves an engine and kills itself at a step.
const (
	fromVariable   = "FLOWFABRIC_MOVE_FROM"
	toVariable     = "FLOWFABRIC_MOVE_TO"
	prefixVariable = "FLOWFABRIC_MOVE_PREFIX"
	stepVariable   = "FLOWFABRIC_MOVE_STEP"
)

func TestMain(m *testing.M) {
	if os.Getenv(fromVariable) != "" {
		if err := moveAndDie(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	enginetest.Main(m)
}

// moveAndDie moves an engine, and kills the process at the step with the number of the environment.
func moveAndDie(ctx context.Context) error {
	last, err := strconv.Atoi(os.Getenv(stepVariable))
	if err != nil {
		return err
	}
	steps := 0
	config := move.Config{Prefix: os.Getenv(prefixVariable), Progress: func(string, int) {
		if steps++; steps == last {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {} // until the signal arrives
		}
	}}
	_, err = move.Run(ctx, os.Getenv(fromVariable), os.Getenv(toVariable), config)
	return err
}

// killed runs a move in a process that dies at a step. It reports whether the move was over before.
func killed(t *testing.T, from, to, prefix string, step int) (over bool) {
	t.Helper()
	c := exec.CommandContext(enginetest.Context(t), os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), fromVariable+"="+from, toVariable+"="+to, prefixVariable+"="+prefix,
		stepVariable+"="+strconv.Itoa(step))
	out, err := c.CombinedOutput()
	if err != nil {
		require.Contains(t, err.Error(), "killed", "%s", out)
	}
	return err == nil
}

func closed(t *testing.T, b *enginetest.Bench) {
	t.Helper()
	b.Client.Close()
	require.NoError(t, b.Engine.Close())
}

// refused returns the error with which no program can open an engine.
func refused(t *testing.T, url, prefix string, want error) string {
	t.Helper()
	_, err := runtime.Open(enginetest.Context(t), url, runtime.OpenConfig{Prefix: prefix, AllowVolatile: true})
	require.ErrorIs(t, err, want)
	return err.Error()
}

// each returns how many runs there are in each of 13 states.
func each() int {
	if os.Getenv("FLOWFABRIC_SOAK") != "" {
		return 400
	}
	return 60
}

// However often a move is killed, at whatever step, it comes to its end.
func TestMoveSurvivesKills(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		prefix := enginetest.NewPrefix()
		dir := "embedded:" + filepath.Join(t.TempDir(), "engine")
		server := testserver.Start(t, testserver.Options{Kind: kind})
		b := enginetest.Open(t, testserver.Embedded, dir, prefix)
		w := workload.New(t, 2)
		w.Start(t, b)
		closed(t, b)
		kills := 0
		for !killed(t, dir, server.URL(), prefix, kills+1) {
			if kills++; kills > 1 { // the first one comes before the old engine has its mark
				refused(t, dir, prefix, enginecore.ErrMoved)
			}
			refused(t, server.URL(), prefix, enginecore.ErrIncomplete)
		}
		require.Greater(t, kills, 4)
		b = enginetest.Open(t, kind, server.URL(), prefix)
		w.Finish(t, b)
		b.Settle(t)
	})
}

// Runs in all states move from a directory to a server, by processes that are killed again and again, and from there to
// a cluster; then all of them continue to their ends, with the tokens that were given out in the directory.
func TestRunsInAllStatesMove(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx, prefix := enginetest.Context(t), enginetest.NewPrefix()
		config := move.Config{Prefix: prefix}
		dir := "embedded:" + filepath.Join(t.TempDir(), "engine")
		w := workload.New(t, each())
		b := enginetest.Open(t, testserver.Embedded, dir, prefix)
		w.Start(t, b)
		counts := b.Check(t, invariant.AnyTime)
		require.NotNil(t, counts)
		closed(t, b)

		server := testserver.Start(t, testserver.Options{Kind: kind})
		plan, err := move.Plan(ctx, dir, server.URL(), config)
		require.NoError(t, err)
		require.GreaterOrEqual(t, plan.Runs, int64(w.Runs()-1))
		require.Greater(t, plan.OpenRuns, int64(6*each()))
		require.EqualValues(t, 1, plan.Schedules)
		require.Equal(t, 4, plan.Partitions.Flow)
		closed(t, enginetest.Open(t, testserver.Embedded, dir, prefix)) // a plan changes nothing

		require.False(t, killed(t, dir, server.URL(), prefix, 2))
		require.Contains(t, refused(t, dir, prefix, enginecore.ErrMoved), "being moved to "+server.URL())
		require.Contains(t, refused(t, server.URL(), prefix, enginecore.ErrIncomplete), "being moved here")
		for step := 3; step < 8; step += 2 {
			require.False(t, killed(t, dir, server.URL(), prefix, step))
		}
		report, err := move.Run(ctx, dir, server.URL(), config)
		require.NoError(t, err)
		require.Less(t, report.Written, report.Keys, "it continued")
		require.Equal(t, plan.Runs, report.Runs)
		require.Contains(t, refused(t, dir, prefix, enginecore.ErrMoved), "were moved to "+server.URL())
		again, err := move.Run(ctx, dir, server.URL(), config)
		require.NoError(t, err)
		require.True(t, again.Already)
		require.ErrorIs(t, move.Cancel(ctx, dir, server.URL(), config), move.ErrConflict)

		url, at := server.URL(), kind
		if kind == testserver.Valkey {
			cluster := testserver.StartCluster(t, kind, 3)
			url, at = cluster.URL(), testserver.OnCluster
			for _, step := range []int{1, 2, 5} {
				require.False(t, killed(t, server.URL(), url, prefix, step))
			}
			moved, err := move.Run(ctx, server.URL(), url, config)
			require.NoError(t, err)
			require.Equal(t, report.Runs, moved.Runs)
			require.Contains(t, refused(t, server.URL(), prefix, enginecore.ErrMoved), "were moved to ")
		}
		b = enginetest.Open(t, at, url, prefix)
		w.Finish(t, b)
		b.Settle(t)
	})
}

// An engine that programs use is not moved, nor to one that has data or is in use.
func TestMoveIsRefused(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx, prefix := enginetest.Context(t), enginetest.NewPrefix()
		config := move.Config{Prefix: prefix}
		server := testserver.Start(t, testserver.Options{Kind: kind})
		dir := "embedded:" + filepath.Join(t.TempDir(), "engine")
		b := enginetest.Open(t, kind, server.URL(), prefix)
		w := workload.New(t, 1)

		keeper := b.Keeper(t)
		enginetest.Eventually(t, func() string {
			if _, err := move.Plan(ctx, server.URL(), dir, config); err == nil {
				return "the keeper does not listen yet"
			}
			return ""
		})
		_, err := move.Run(ctx, server.URL(), dir, config)
		require.ErrorIs(t, err, move.ErrInUse)
		require.NoError(t, keeper.Stop())
		w.Start(t, b)
		runtimeWorker := b.Worker(t, w.Handlers())
		enginetest.Eventually(t, func() string {
			workers, err := b.Client.Workers(ctx)
			return map[bool]string{false: "no worker"}[err == nil && len(workers) > 0]
		})
		_, err = move.Plan(ctx, server.URL(), dir, config)
		require.ErrorIs(t, err, move.ErrInUse)
		require.NoError(t, runtimeWorker.Stop())
		require.NoError(t, engine.ConnOf(b.Engine.Internal()).Check(ctx), "nothing was marked")
		closed(t, b)

		held, err := embedded.Open(ctx, embedded.Options{Dir: strings.TrimPrefix(dir, "embedded:")})
		require.NoError(t, err)
		_, err = move.Run(ctx, server.URL(), dir, config)
		require.ErrorIs(t, err, embedded.ErrLocked)
		require.NoError(t, held.Close())
		other := "embedded:" + filepath.Join(t.TempDir(), "other")
		full := enginetest.Open(t, testserver.Embedded, other, prefix)
		workload.New(t, 1).Start(t, full)
		closed(t, full)
		_, err = move.Run(ctx, server.URL(), other, config)
		require.ErrorIs(t, err, move.ErrNotEmpty)
		_, err = move.Run(ctx, server.URL(), server.URL(), config)
		require.ErrorIs(t, err, move.ErrConflict)
		_, err = move.Run(ctx, server.URL(), "embedded:", config)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorIs(t, move.Cancel(ctx, server.URL(), dir, config), move.ErrConflict)

		// A move that has begun can be given up, and begun again; no other move can begin before.
		require.False(t, killed(t, server.URL(), dir, prefix, 2))
		refused(t, server.URL(), prefix, enginecore.ErrMoved)
		_, err = move.Run(ctx, server.URL(), "embedded:"+filepath.Join(t.TempDir(), "third"), config)
		require.ErrorIs(t, err, move.ErrConflict)
		require.NoError(t, move.Cancel(ctx, server.URL(), dir, config))
		b = enginetest.Open(t, kind, server.URL(), prefix)
		b.Check(t, invariant.AnyTime)

		// A program that has no channel open is not found, and refuses to continue when it reads the mark.
		_, err = move.Run(ctx, server.URL(), dir, config)
		require.NoError(t, err)
		require.ErrorIs(t, b.Engine.Check(ctx), enginecore.ErrMoved)
		_, err = b.Client.Pauses(ctx)
		require.ErrorIs(t, err, enginecore.ErrMoved)
		b = enginetest.Open(t, testserver.Embedded, dir, prefix)
		w.Finish(t, b)
		b.Settle(t)
	})
}
