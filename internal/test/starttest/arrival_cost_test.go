package starttest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A start takes one call, and a bounded number of commands more with a key, a throttle or debounce. The test does not
// run in parallel with others, since it counts the commands of the server that all tests share.
func TestArrivalCost(t *testing.T) {
	b := enginetest.New(t, testserver.Valkey, runtime.OpenConfig{Partitions: 8})
	ctx, g := enginetest.Context(t), newKeyedFlow(t)
	const starts = 50
	key := 0
	next := func() string {
		key++
		return fmt.Sprint("key ", key)
	}
	start := func(opts ...runtime.StartOption) {
		_, err := runtime.Start(ctx, b.Client, g.def, 1, opts...)
		require.NoError(t, err)
	}
	for range 100 { // the graph is in most partitions
		start()
	}
	for _, c := range []struct {
		name string
		one  func()
		most float64
	}{
		{"plain", func() { start() }, 18},
		{"key", func() { start(runtime.WithKey(next(), runtime.KeyPolicy{})) }, 24},
		{"queue", func() { start(runtime.WithKey("queue", runtime.KeyPolicy{WhenTaken: runtime.QueueRun})) }, 40},
		{"throttle", func() { start(runtime.WithThrottle(next(), runtime.Throttle{Starts: 1, Per: time.Hour})) }, 28},
		{"debounce", func() {
			_, err := runtime.Start(ctx, b.Client, g.def, 1, runtime.WithDebounce("debounce", runtime.DebouncePolicy{Quiet: time.Hour}))
			require.NoError(t, err)
		}, 36},
	} {
		c.one()
		before, calls := fixture.Commands(ctx, t, b)
		for range starts {
			c.one()
		}
		after, callsAfter := fixture.Commands(ctx, t, b)
		perStart := float64(after-before) / starts
		t.Logf("%s: %.2f commands and %.2f calls of functions for a start", c.name, perStart, float64(callsAfter-calls)/starts)
		require.LessOrEqual(t, perStart, c.most, c.name)
	}
}
