package runtime_test

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
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Every duty can be seen to by hand, in both modes; one that does not exist is refused by name.
func TestDutiesByHand(t *testing.T) {
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		seen := make(map[runtime.Duty]bool)
		for _, info := range runtime.DutyTable() {
			require.NotEmpty(t, info.Summary)
			require.Positive(t, info.Every)
			require.False(t, seen[info.Duty], "%s is there twice", info.Duty)
			seen[info.Duty] = true
			report, err := b.Client.RunDuty(ctx, info.Duty)
			if b.Contract() && !info.InContractMode {
				require.ErrorIs(t, err, runtime.ErrUnknownDuty)
				continue
			}
			require.NoError(t, err, info.Duty)
			require.Equal(t, info.Duty, report.Duty)
			require.Positive(t, report.Partitions)
			require.GreaterOrEqual(t, report.Steps, report.Partitions)
			require.Zero(t, report.Done, info.Duty)
			require.Zero(t, report.Remaining, info.Duty)
		}
		_, err := b.Client.RunDuty(ctx, "lease-expiry")
		require.ErrorIs(t, err, runtime.ErrUnknownDuty)
		require.ErrorContains(t, err, `"lease-expiry"`)
		require.ErrorContains(t, err, "lease_expiry")
		duty, err := runtime.ParseDuty("edge_cancel_dispatcher")
		require.NoError(t, err)
		require.Equal(t, runtime.DutySiblingCancelDispatch, duty)
	})
}

// There is a duty for every scanner of the contract.
func TestScannersOfTheContract(t *testing.T) {
	duties := make(map[runtime.Duty]string)
	for _, scanner := range []string{
		"lease_expiry", "delayed_promoter", "attempt_timeout", "execution_deadline", "suspension_timeout", "pending_wp_expiry",
		"budget_reset", "budget_reconciler", "quota_reconciler", "unblock", "dependency_reconciler", "index_reconciler",
		"retention_trimmer", "flow_projector", "cancel_reconciler", "edge_cancel_dispatcher", "edge_cancel_reconciler",
	} {
		duty, err := runtime.ParseDuty(scanner)
		require.NoError(t, err)
		require.Empty(t, duties[duty], "%s is the duty of two scanners", duty)
		duties[duty] = scanner
	}
}

// A duty that is run by hand does what is due and reports it; what others see to is left alone.
func TestRunOnceReports(t *testing.T) {
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
		def := single(t, failing, activity.Retry(activity.Exponential{First: 20 * time.Millisecond, Attempts: 2}))
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		enginetest.Eventually(t, enginetest.Patience, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if d.Nodes[0].State != runtime.NodeDelayed {
				return "the node waits for its next attempt"
			}
			return ""
		})
		time.Sleep(30 * time.Millisecond) // until the delay is over by the engine's clock

		report, err := b.Client.RunDuty(ctx, runtime.DutyLeaseExpiry)
		require.NoError(t, err)
		require.Zero(t, report.Done)
		report, err = b.Client.RunDuty(ctx, runtime.DutyDelayedPromotion)
		require.NoError(t, err)
		require.EqualValues(t, 1, report.Done)
		require.Positive(t, report.Lag)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, out)
	})
}

// What a keeper reports of itself counts what it did.
func TestKeeperStats(t *testing.T) {
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
		keeper := runtime.NewKeeper(b.Engine)
		running := b.Run(t, "keeper", keeper.Run)
		def := single(t, failing, activity.Retry(activity.Exponential{First: time.Millisecond, Attempts: 4}))
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.NoError(t, running.Stop())
		stats := keeper.Stats()
		require.Equal(t, 1, stats.Keepers)
		require.Equal(t, 4, stats.Partitions)
		every := make(map[runtime.Duty]time.Duration)
		for _, info := range runtime.DutyTable() {
			every[info.Duty] = info.Every
		}
		for _, d := range stats.Duties {
			// What goes through all records begins some time after the start.
			if every[d.Duty] < time.Minute {
				require.NotZero(t, d.LastRun, d.Duty)
			}
			require.Zero(t, d.Panics, d.Duty)
			if d.Duty == runtime.DutyDelayedPromotion {
				require.EqualValues(t, 3, d.Done)
				require.GreaterOrEqual(t, d.MaxLag, d.Lag)
			}
		}
	})
}

// A keeper outlives the loss of the library and of the server, and does what is due afterwards.
func TestKeeperSurvives(t *testing.T) {
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		ctx := enginetest.Context(t)
		failFirst := activity.New("failFirst", func(ctx context.Context, n int) (int, error) {
			if info, _ := activity.Info(ctx); info.Attempt == 1 {
				return 0, errors.New("not yet")
			}
			return n, nil
		})
		keeper := runtime.NewKeeper(b.Engine)
		b.Run(t, "keeper", keeper.Run)
		b.Worker(t, []activity.Handler{failFirst})
		def := single(t, failFirst, activity.Retry(activity.Exponential{First: time.Millisecond, Attempts: 2}))
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
			enginetest.Eventually(t, enginetest.Patience, func() string {
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
		}
		for _, d := range keeper.Stats().Duties {
			require.Zero(t, d.Panics, d.Duty)
			if d.Duty == runtime.DutyDelayedPromotion {
				require.EqualValues(t, 3, d.Done)
			}
		}
	})
}

// The page about keepers names every duty.
func TestDutiesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/operations/keeper.md")
	require.NoError(t, err)
	for _, duty := range runtime.Duties() {
		require.Contains(t, string(page), "| `"+string(duty)+"` |")
	}
}
