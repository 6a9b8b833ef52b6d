package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Every task can be seen to by hand, in both modes; one that does not exist is refused by name.
func TestKeeperTasksByHand(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		seen := make(map[string]bool)
		for _, info := range b.KeeperTasks() {
			require.NotEmpty(t, info.Summary)
			require.Positive(t, info.Every)
			require.False(t, seen[info.Name], "%s is there twice", info.Name)
			seen[info.Name] = true
			report, err := b.RunKeeperTask(ctx, info.Name)
			require.NoError(t, err, info.Name)
			require.Equal(t, info.Name, report.Task)
			require.Positive(t, report.Partitions)
			require.GreaterOrEqual(t, report.Steps, report.Partitions)
			require.Zero(t, report.Done, info.Name)
			require.Zero(t, report.Remaining, info.Name)
		}
		if b.Contract() {
			require.False(t, seen["schedule"])
			_, err := b.RunKeeperTask(ctx, "schedule")
			require.ErrorIs(t, err, admin.ErrUnknownKeeperTask)
		}
		_, err := b.RunKeeperTask(ctx, "lease-expiry")
		require.ErrorIs(t, err, admin.ErrUnknownKeeperTask)
		require.ErrorContains(t, err, `"lease-expiry"`)
		require.ErrorContains(t, err, "lease_expiry")
		// The contract's name of a scanner names the task, too.
		report, err := b.RunKeeperTask(ctx, "delayed_promoter")
		require.NoError(t, err)
		require.Equal(t, "delayed_promotion", report.Task)
	})
}

// There is a task for every scanner of the contract.
func TestScannersOfTheContract(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	var scanners []string
	for _, task := range b.KeeperTasks() {
		if task.ContractName != "" {
			scanners = append(scanners, task.ContractName)
		}
	}
	require.ElementsMatch(t, []string{
		"lease_expiry", "delayed_promoter", "attempt_timeout", "execution_deadline", "suspension_timeout", "pending_wp_expiry",
		"budget_reset", "budget_reconciler", "quota_reconciler", "unblock", "dependency_reconciler", "index_reconciler",
		"retention_trimmer", "flow_projector", "cancel_reconciler", "edge_cancel_dispatcher", "edge_cancel_reconciler",
	}, scanners)
}

// A task that is run by hand performs the due work and reports it; it leaves the work of other tasks alone.
func TestRunOnceReports(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var calls atomic.Int64
		failing := activity.New("failing", func(context.Context, int) (int, error) {
			if calls.Add(1) == 1 {
				return 0, errors.New("not yet")
			}
			return 7, nil
		})
		b.Worker(t, []activity.Handler{failing})
		def := fixture.Single(t, failing, activity.Retry(activity.RetryPolicy{First: 20 * time.Millisecond, Attempts: 2, Factor: 1}))
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if d.Nodes[0].State != fabrictype.NodeDelayed {
				return "the node waits for its next attempt"
			}
			return ""
		})
		enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 20*time.Millisecond) // until the delay is over by the engine's clock

		report, err := b.RunKeeperTask(ctx, "lease_expiry")
		require.NoError(t, err)
		require.Zero(t, report.Done)
		report, err = b.RunKeeperTask(ctx, "delayed_promotion")
		require.NoError(t, err)
		require.EqualValues(t, 1, report.Done)
		require.Positive(t, report.Lag)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, out)
	})
}

// A keeper's statistics count its work.
func TestKeeperStats(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var calls atomic.Int64
		failing := activity.New("failing", func(context.Context, int) (int, error) {
			if calls.Add(1) <= 3 {
				return 0, errors.New("not yet")
			}
			return 7, nil
		})
		b.Worker(t, []activity.Handler{failing})
		keeper := enginetest.NewKeeper(t, b.Engine, runtime.KeeperConfig{})
		running := b.Run(t, "keeper", keeper.Run)
		def := fixture.Single(t, failing, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 4}))
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.NoError(t, running.Stop())
		stats := keeper.Stats()
		require.Equal(t, 1, stats.Keepers)
		require.Equal(t, 4, stats.Partitions)
		every := make(map[string]time.Duration)
		for _, info := range b.KeeperTasks() {
			every[info.Name] = info.Every
		}
		for name, d := range stats.Tasks {
			// Tasks that read all records begin some time after the start.
			if every[name] < time.Minute {
				require.NotZero(t, d.LastRun, name)
			}
			require.Zero(t, d.Panics, name)
		}
		promotion := stats.Tasks["delayed_promotion"]
		require.EqualValues(t, 3, promotion.Done)
		require.GreaterOrEqual(t, promotion.MaxLag.Duration, promotion.Lag.Duration)
	})
}

// A keeper survives the loss of the library and of the server, and performs the due work afterwards.
func TestKeeperSurvives(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		ctx := enginetest.Context(t)
		failFirst := activity.New("failFirst", func(ctx context.Context, n int) (int, error) {
			if info, _ := activity.Info(ctx); info.Attempt == 1 {
				return 0, errors.New("not yet")
			}
			return n, nil
		})
		keeper := enginetest.NewKeeper(t, b.Engine, runtime.KeeperConfig{})
		b.Run(t, "keeper", keeper.Run)
		b.Worker(t, []activity.Handler{failFirst})
		def := fixture.Single(t, failFirst, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2}))
		for i, loss := range []func(){
			func() {},
			func() { server.Command(t, "FUNCTION", "FLUSH", "SYNC") },
			func() {
				server.Kill()
				server.Restart()
			},
		} {
			loss()
			var out int
			enginetest.Eventually(t, func() string {
				run, err := runtime.Start(ctx, b.Client, def, 7, runtime.WithID(fmt.Sprint("run", i)))
				if err == nil {
					out, err = run.Result(ctx)
				}
				if err != nil {
					return err.Error()
				}
				return ""
			})
			require.Equal(t, 7, out)
			// The keeper counts by replies, and the reply of this promotion must not be lost with the server.
			enginetest.Eventually(t, func() string {
				if done := keeper.Stats().Tasks["delayed_promotion"].Done; done != int64(i+1) {
					return fmt.Sprintf("%d promotions counted, %d were made", done, i+1)
				}
				return ""
			})
		}
		for name, d := range keeper.Stats().Tasks {
			require.Zero(t, d.Panics, name)
		}
	})
}

// The page about keepers names every task.
func TestKeeperTasksAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operations/keeper.md")
	require.NoError(t, err)
	b := enginetest.New(t, testserver.Embedded)
	for _, task := range b.KeeperTasks() {
		require.Contains(t, string(page), "| `"+task.Name+"` |")
	}
}
