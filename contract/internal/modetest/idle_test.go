package modetest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// commandCalls returns how often each command was called on the server of a bench.
func commandCalls(t *testing.T, b *enginetest.Bench) map[string]int {
	t.Helper()
	client := b.Operator()
	stats, err := client.Do(enginetest.Context(t), client.B().Info().Section("commandstats").Build()).ToString()
	require.NoError(t, err)
	calls := make(map[string]int)
	for line := range strings.SplitSeq(stats, "\r\n") {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		count, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.Atoi(count); err == nil {
			calls[name] = n
		}
	}
	return calls
}

// An idle keeper and an idle worker query all partitions with few commands in each poll interval, however many
// partitions there are, also while many executions wait for events in the far future.
func TestContractIdleCost(t *testing.T) {
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			b := enginetest.NewContract(t, kind, runtime.OpenConfig{Partitions: 256})
			ctx := enginetest.Context(t)
			a := fixture.AddOne()
			b.Keeper(t)
			b.Worker(t, []activity.Handler{a})
			perPoll := func(polls int) (sum float64, by map[string]int) {
				begun := commandCalls(t, b)
				by = make(map[string]int)
				enginetest.Eventually(t, func() string {
					now := commandCalls(t, b)
					// The keeper reads the set of lanes once in each interval.
					if n := now["smembers"] - begun["smembers"]; n < polls {
						return fmt.Sprintf("%d of %d polls", n, polls)
					}
					sum = 0
					for name, n := range now {
						if n -= begun[name]; n > 0 && name != "info" && name != "publish" {
							by[name] = n
							sum += float64(n)
						}
					}
					return ""
				})
				return sum / float64(polls), by
			}
			perPoll(5) // all loops have visited all partitions
			empty, by := perPoll(100)
			t.Logf("empty: %.1f commands for each poll interval: %v", empty, by)
			require.Less(t, empty, 30.0)

			f, runs := waitForGo(t), 0
			for _, waits := range []int{1, 3, 64} {
				for ; runs < waits; runs++ {
					_, err := runtime.Start(ctx, b.Client, f, runs)
					require.NoError(t, err)
				}
				perPoll(5)
				waiting, by := perPoll(100)
				t.Logf("%d runs wait: %.1f commands for each poll interval: %v", waits, waiting, by)
				require.Less(t, waiting, 200.0, "%d runs wait", waits)
			}
		})
	}
}

// waitForGo is a flow that waits for a signal.
func waitForGo(t *testing.T) *flow.Definition[int, int] {
	t.Helper()
	f := flow.New[int, int]("waiting")
	flow.Return(f, flow.Waitpoint[int](f, "approval", activity.Timeout(time.Hour, activity.FailOnTimeout)))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}
