package runtime_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// commands counts what a server has executed, also by calls of functions.
func commands(ctx context.Context, t *testing.T, b *enginetest.Bench) (total, calls int64) {
	client := b.Engine.Core().Client()
	text, err := client.Do(ctx, client.B().Info().Section("commandstats").Build()).ToString()
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(m[2], 10, 64)
		require.NoError(t, err)
		total += n
		if m[1] == "fcall" {
			calls += n
		}
	}
	return total, calls
}

// costOf is how many commands and calls of functions a run of one node takes, at full load of one worker.
func costOf(ctx context.Context, t *testing.T, b *enginetest.Bench, a *activity.Activity[int, int], opts ...flow.Option) (perRun, callsPerRun float64) {
	t.Helper()
	const runs = 600
	f := flow.New[int, int](a.Name(), opts...)
	flow.Return(f, flow.Node(f, "only", a, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	worker := b.Worker(t, []activity.Handler{a}, runtime.Concurrency(16))
	awaitAll(ctx, t, startAll(ctx, t, b.Client, def, 50))
	before, callsBefore := commands(ctx, t, b)
	awaitAll(ctx, t, startAll(ctx, t, b.Client, def, runs))
	after, callsAfter := commands(ctx, t, b)
	require.NoError(t, worker.Stop())
	return float64(after-before) / runs, float64(callsAfter-callsBefore) / runs
}

// A limit that is far from binding adds a bounded number of commands to each execution, and few calls.
func TestCostOfLimit(t *testing.T) {
	b := enginetest.New(t, testserver.Valkey, runtime.Partitions(8))
	ctx := enginetest.Context(t)
	free, freeCalls := costOf(ctx, t, b, passing("free"))
	limited, limitedCalls := costOf(ctx, t, b, passing("limited", activity.Limit("wide", activity.AtOnce(1000))))
	// It is 1.03 times as many. How much goes together depends on the load, hence the rest.
	require.LessOrEqual(t, limited, 1.45*free)
	require.LessOrEqual(t, limitedCalls, freeCalls+0.6)
	t.Logf("%.1f commands and %.2f calls for each run, with a limit %.1f and %.2f", free, freeCalls, limited, limitedCalls)
}

// A budget that is far from used up costs a run next to nothing where nothing uses it, and a bounded number of commands where a
// node does.
func TestCostOfBudget(t *testing.T) {
	b := enginetest.New(t, testserver.Valkey, runtime.Partitions(8))
	ctx := enginetest.Context(t)
	wide := flow.Budget("wide", flow.PerFlow(), flow.HardLimit("calls", 1<<40), flow.OnExceeded(flow.BlockNodes))
	free, freeCalls := costOf(ctx, t, b, passing("free"))
	idle, idleCalls := costOf(ctx, t, b, passing("idle"), wide)
	reporting := activity.New("reporting", func(ctx context.Context, n int) (int, error) { return n, activity.ReportUsage(ctx, "calls", 1) })
	used, usedCalls := costOf(ctx, t, b, reporting, wide)
	reserving := activity.New("reserving", func(ctx context.Context, n int) (int, error) {
		r, err := activity.Reserve(ctx, "calls", 2)
		if err != nil {
			return 0, err
		}
		return n, r.Settle(ctx, 1)
	})
	reserved, reservedCalls := costOf(ctx, t, b, reserving, wide)
	// How much goes together depends on the load: the bounds are what it takes where nothing does but the starts.
	require.LessOrEqual(t, idle, 1.15*free)
	require.LessOrEqual(t, idleCalls, freeCalls+0.4)
	require.LessOrEqual(t, used, 1.15*free+13)
	require.LessOrEqual(t, usedCalls, freeCalls+2.6)
	require.LessOrEqual(t, reserved, 1.15*free+30)
	require.LessOrEqual(t, reservedCalls, freeCalls+3.6)
	t.Logf("%.1f commands and %.2f calls for each run, with a budget %.1f and %.2f, with a report %.1f and %.2f, with a reservation %.1f and %.2f",
		free, freeCalls, idle, idleCalls, used, usedCalls, reserved, reservedCalls)
}
