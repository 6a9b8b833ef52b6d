package contracttest

import (
	"os"
	"strconv"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/invariant"
	"github.com/flowfabric/flowfabric-go/internal/testserver"
)

func TestProbe(t *testing.T) {
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	b := newBench(t, testserver.Redis)
	g := newGenerator(b, uint64(seed))
	seen := map[string]int{}
	for i := range 1500 {
		if i%150 == 0 {
			g.reset()
			g.b.submit()
		}
		k := pick(g.r, g.kinds...)
		f := g.prepare(k.name)
		mid, err := invariant.Check(t.Context(), b.client, b.prefix, invariant.AnyTime)
		if err != nil {
			t.Fatal(err)
		}
		old := map[string]bool{}
		for _, v := range mid.Violations {
			old[v.String()] = true
		}
		function, keys, args, err := k.make(g, f)
		if err != nil {
			t.Fatal(err)
		}
		res := b.raw(t.Context(), function, keys, args)
		report, err := invariant.Check(t.Context(), b.client, b.prefix, invariant.AnyTime)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range report.Violations {
			if old[v.String()] {
				continue
			}
			id := function + " " + string(v.Rule)
			seen[id]++
			if seen[id] <= 2 {
				m, _ := res.ToMessage()
				t.Logf("%s %q -> %s\n   before: %v\n   %s", function, args, m.String(), f.core, v)
			}
		}
	}
	t.Log(seen)
}
