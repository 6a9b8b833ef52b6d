//go:build !race

package runtime

import "testing"

// The test bounds the allocations of a worker for an execution and of a client for a run, without their calls. It does
// not run with the race detector, under which pools drop objects.
func TestAllocationsOfTaskAndRun(t *testing.T) {
	bench := newCostBench(t)
	claimed := bench.claimed(t)
	for _, x := range []struct {
		name string
		most float64
		do   func()
	}{
		{"an execution of a worker", 22, func() { bench.runTask(t, claimed) }},
		{"a run of a client", 15, func() { bench.runFlow(t, 1) }},
	} {
		if n := testing.AllocsPerRun(1000, x.do); n > x.most {
			t.Errorf("%s allocates %v times, want at most %v", x.name, n, x.most)
		}
	}
}
