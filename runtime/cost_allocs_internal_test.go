//go:build !race

package runtime

import "testing"

// What an execution costs a worker and a run a client in allocations, besides their calls. The race detector lets pools
// forget, so there is nothing to count with it.
func TestAllocationsOfTaskAndRun(t *testing.T) {
	bench := newCostBench(t)
	claimed := bench.claimed(t)
	for _, x := range []struct {
		name string
		most float64
		do   func()
	}{
		{"an execution of a worker", 28, func() { bench.runTask(t, claimed) }},
		{"a run of a client", 28, func() { bench.runFlow(t, 1) }},
	} {
		if n := testing.AllocsPerRun(1000, x.do); n > x.most {
			t.Errorf("%s allocates %v times, want at most %v", x.name, n, x.most)
		}
	}
}
