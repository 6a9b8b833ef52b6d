package metertest

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/luameter"
)

var (
	functions = flag.String("functions", "", "list the functions of the library that a workload of the table takes")
	allowance = flag.Float64("allowance", 0, "print bounds that are as many percent above the costs, and check none")
)

// Runs of a workload come in batches of two sizes, which separate the costs of a call from the costs of its runs.
const (
	small, large = 4, 16
	// cycles is how many batches are counted of each size.
	cycles = 4
)

// cost has the work of the library for a part of a run: the run, or one of its nodes.
type cost struct {
	instructions float64 // without the calls that a batch takes whatever its size
	inBatch      float64 // with them, in large batches
	calls        float64
	commands     float64
	texts        float64 // made by Lua
	fixed        float64 // the instructions of those calls of a batch
}

// measure runs a workload in batches of both sizes.
func measure(t *testing.T, w workload, meter *luameter.Meter) cost {
	t.Helper()
	r := newRig(t, w, meter)
	count := func(runs int) luameter.Counts {
		r.cycle(runs)
		r.cycle(runs)
		before := meter.Counts()
		for range cycles {
			r.cycle(runs)
		}
		return meter.Counts().Since(before)
	}
	few, many := count(small), count(large)
	each := func(n int64) float64 { return float64(n) / float64(cycles*large*w.per) }
	slope := func(few, many int64) float64 { return float64(many-few) / float64(cycles*(large-small)*w.per) }
	c := cost{
		instructions: slope(few.Instructions, many.Instructions), inBatch: each(many.Instructions),
		calls: each(many.Calls), commands: each(many.Commands), texts: each(many.Texts),
	}
	c.fixed = (c.inBatch - c.instructions) * float64(large*w.per)
	return c
}

// TestTable prints the costs of runs, and fails where a cost is more than its bound.
func TestTable(t *testing.T) {
	t.Parallel()
	costs := make(map[string]cost)
	for _, w := range workloads {
		t.Run(w.name, func(t *testing.T) {
			costs[w.name] = measure(t, w, new(luameter.Meter))
		})
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "of a run or node\tinstructions\tof plain\twith calls\tof plain\tbounds\tcalls\tcommands\ttexts\t")
	for _, w := range workloads {
		if c, found := costs[w.name]; found {
			base := costs[w.of]
			fmt.Fprintf(table, "%s\t%.0f\t%s\t%.0f\t%s\t%s\t%.3f\t%.1f\t%.1f\t\n", w.name, c.instructions,
				ratio(c.instructions, base.instructions), c.inBatch, ratio(c.inBatch, base.inBatch), bounds[w.name], c.calls,
				c.commands, c.texts)
		}
	}
	require.NoError(t, table.Flush())
	if len(costs) == len(workloads) {
		starting, ending := callCosts(costs[single], costs[chain])
		fmt.Fprintf(&out, "a call, whatever is in it: %.0f that starts runs, %.0f that ends and claims nodes; bounds: %s\n",
			starting, ending, bounds[calls])
		costs[calls] = cost{instructions: starting, inBatch: ending}
	}
	t.Logf("in batches of %d runs:\n%s", large, out.String())
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		c, most := costs[name], bounds[name]
		if *allowance > 0 {
			fit := 1 + *allowance/100
			fmt.Printf("\t%q: {%.0f, %.0f},\n", name, fit*c.instructions, fit*c.inBatch)
			continue
		}
		assert.LessOrEqual(t, c.instructions, most.part, "%s: the first bound of Lua instructions", name)
		assert.LessOrEqual(t, c.inBatch, most.inBatch, "%s: the second bound of Lua instructions", name)
	}
}

// ratio is empty without a base.
func ratio(value, base float64) string {
	if base == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", value/base)
}

// callCosts returns the instructions of a call that starts runs and of one that ends and claims nodes, whatever is in
// them. A batch of single runs takes one of each, and one of chains as many of the second kind as these have nodes.
func callCosts(one, ten cost) (starting, ending float64) {
	both, all := one.fixed, ten.fixed
	ending = (all - both) / (chainNodes - 1)
	return both - ending, ending
}

// TestRepeatable: the same work takes the same instructions.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	for _, w := range workloads[:2] {
		require.Equal(t, measure(t, w, new(luameter.Meter)), measure(t, w, new(luameter.Meter)), w.name)
	}
}

// TestFunctions lists the functions that a workload takes, if the flag names one.
func TestFunctions(t *testing.T) {
	t.Parallel()
	at := slices.IndexFunc(workloads, func(w workload) bool { return w.name == *functions })
	if at < 0 {
		t.Skip("-functions names no workload")
	}
	w := workloads[at]
	meter := new(luameter.Meter)
	meter.CountFunctions()
	r := newRig(t, w, meter)
	spend := func(runs int) map[int]int64 {
		r.cycle(runs)
		r.cycle(runs)
		before := meter.Functions()
		r.cycle(runs)
		spent := meter.Functions()
		for line := range spent {
			spent[line] -= before[line]
		}
		return spent
	}
	few, many := spend(small), spend(large)
	var sum int64
	for _, n := range many {
		sum += n
	}
	source := strings.Split(lualib.Source(), "\n")
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 4, 2, ' ', tabwriter.AlignRight)
	per := float64(large * w.per)
	for _, line := range slices.SortedFunc(maps.Keys(many), func(a, b int) int { return cmp.Compare(many[b], many[a]) }) {
		if many[line] > 0 {
			each := float64(many[line]-few[line]) / (large - small)
			fmt.Fprintf(table, "%.1f\t%.1f %%\t%.0f\t%d \t%s\n", float64(many[line])/per, 100*float64(many[line])/float64(sum),
				float64(few[line])-each*small, line, strings.TrimSpace(source[max(line-1, 0)]))
		}
	}
	require.NoError(t, table.Flush())
	t.Logf("%s, instructions of a run or node, share, instructions whatever is in the calls, line of the library:\n%s",
		w.name, out.String())
}

// bound limits the instructions of a workload.
type bound struct{ part, inBatch float64 }

// String has both limits.
func (b bound) String() string { return fmt.Sprintf("%.0f, %.0f", b.part, b.inBatch) }
