package runtime_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/testserver"
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

// A limit that is far from binding adds a bounded number of commands to each execution, and few calls.
func TestCostOfLimit(t *testing.T) {
	b := enginetest.New(t, testserver.Valkey, runtime.Partitions(8))
	ctx := enginetest.Context(t)
	const runs = 600
	measure := func(name string, opts ...activity.Option) (perRun, callsPerRun float64) {
		a := passing(name, opts...)
		f := flow.New[int, int](name)
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
	free, freeCalls := measure("free")
	limited, limitedCalls := measure("limited", activity.Limit("wide", activity.AtOnce(1000)))
	// It is 1.03 times as many. How much goes together depends on the load, hence the rest.
	require.LessOrEqual(t, limited, 1.45*free)
	require.LessOrEqual(t, limitedCalls, freeCalls+0.6)
	t.Logf("%.1f commands and %.2f calls for each run, with a limit %.1f and %.2f", free, freeCalls, limited, limitedCalls)
}
