package limittest

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// costAlone returns how many commands and calls of functions a run of one node takes when nothing is batched: one run
// after the other, by a worker that acts on messages only. It is the most that a run takes, and does not depend on the
// machine.
func costAlone(ctx context.Context, t *testing.T, b *enginetest.Bench, a *activity.Activity[int, int], opts ...flow.Option) (perRun, callsPerRun float64) {
	t.Helper()
	const runs = 100
	f := flow.New[int, int](a.Name(), opts...)
	flow.Return(f, flow.Node(f, "only", a, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	worker := b.MessageWorker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 1})
	each := func(n int) {
		for i := range n {
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err)
		}
	}
	each(20)
	before, callsBefore := fixture.Commands(ctx, t, b)
	each(runs)
	after, callsAfter := fixture.Commands(ctx, t, b)
	require.NoError(t, worker.Stop())
	return float64(after-before) / runs, float64(callsAfter-callsBefore) / runs
}

// A limit that is far from binding adds a bounded number of commands to each execution, and few calls. The test does
// not run in parallel with others, since it counts the commands of the server that all tests share.
func TestCostOfLimit(t *testing.T) {
	b := enginetest.New(t, testserver.Valkey, runtime.OpenConfig{Partitions: 8})
	ctx := enginetest.Context(t)
	free, freeCalls := costAlone(ctx, t, b, fixture.Passing("free"))
	limited, limitedCalls := costAlone(ctx, t, b, fixture.Passing("limited", activity.Limit("wide", activity.LimitConfig{AtOnce: 1000})))
	t.Logf("%.1f commands and %.2f calls for each run, with a limit %.1f and %.2f", free, freeCalls, limited, limitedCalls)
	// A limit costs zero commands and 0.05 calls while the worker's permits are fresh. On a slow machine each execution
	// requests a permit.
	require.LessOrEqual(t, limited, free+18)
	require.LessOrEqual(t, limitedCalls, freeCalls+1.3)
}

// A budget that is far from used up costs a run next to nothing where nothing uses it, and a bounded number of commands
// where a node does. The test does not run in parallel with others.
func TestCostOfBudget(t *testing.T) {
	b := enginetest.New(t, testserver.Valkey, runtime.OpenConfig{Partitions: 8})
	ctx := enginetest.Context(t)
	wide := flow.Budget("wide", flow.BudgetConfig{Hard: map[string]int64{"calls": 1 << 40}, PerFlow: true, OnExceeded: flow.BlockNodes})
	free, freeCalls := costAlone(ctx, t, b, fixture.Passing("free"))
	idle, idleCalls := costAlone(ctx, t, b, fixture.Passing("idle"), wide)
	reporting := activity.New("reporting", func(ctx context.Context, n int) (int, error) { return n, activity.ReportUsage(ctx, "calls", 1) })
	used, usedCalls := costAlone(ctx, t, b, reporting, wide)
	reserving := activity.New("reserving", func(ctx context.Context, n int) (int, error) {
		r, err := activity.Reserve(ctx, "calls", 2)
		if err != nil {
			return 0, err
		}
		return n, r.Settle(ctx, 1)
	})
	reserved, reservedCalls := costAlone(ctx, t, b, reserving, wide)
	// A budget costs 2, 10 and 28 commands, and 0, 1 and 2 calls. The rest is for the work of a worker and its engine
	// every second, which a slow machine has more of for each run, and is less than one more call.
	require.LessOrEqual(t, idle, free+6)
	require.LessOrEqual(t, idleCalls, freeCalls+0.9)
	require.LessOrEqual(t, used, free+15)
	require.LessOrEqual(t, usedCalls, freeCalls+1.9)
	require.LessOrEqual(t, reserved, free+33)
	require.LessOrEqual(t, reservedCalls, freeCalls+2.9)
	t.Logf("%.1f commands and %.2f calls for each run, with a budget %.1f and %.2f, with a report %.1f and %.2f, with a reservation %.1f and %.2f",
		free, freeCalls, idle, idleCalls, used, usedCalls, reserved, reservedCalls)
}

// The events of a plain run follow from its rows, so that calls write none, and notify the watchers of the partition's
// runs with one command. The number of calls depends on the machine: a node that is not handed over in time is claimed.
// The test does not run in parallel with others.
func TestCostOfEvents(t *testing.T) {
	b := enginetest.New(t, testserver.Valkey, runtime.OpenConfig{Partitions: 1})
	ctx := enginetest.Context(t)
	const nodes = 10
	def := fixture.ChainOf(t, fixture.AddOne(), nodes)
	worker := enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{Concurrency: 1})
	require.NoError(t, worker.Register(def.Handlers()...))
	stop := fixture.Started(t, worker.Run)
	client := engine.ConnOf(b.Engine.Internal()).Client()
	calls := func() (list []int) {
		text, err := client.Do(ctx, client.B().Info().Section("commandstats").Build()).ToString()
		require.NoError(t, err)
		for _, command := range []string{"fcall", "rpush", "xadd", "copy", "rename", "ltrim"} {
			_, rest, _ := strings.Cut(text, "cmdstat_"+command+":calls=")
			count, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.Atoi(count)
			list = append(list, n)
		}
		return list
	}
	before := calls()
	run, err := runtime.Start(ctx, b.Client, def, 1)
	require.NoError(t, err)
	_, err = run.Result(ctx)
	require.NoError(t, err)
	after := calls()
	stop()
	counts := make([]int, len(after))
	for i := range after {
		counts[i] = after[i] - before[i]
	}
	t.Logf("FCALL, RPUSH, XADD, COPY, RENAME, LTRIM: %v", counts)
	require.GreaterOrEqual(t, counts[0], nodes, "the completions are among them")
	require.Equal(t, 3, counts[1], "the entries of the run in lists")
	require.LessOrEqual(t, counts[2], counts[0])
	require.Equal(t, []int{0, 0, 0}, counts[3:])
}
