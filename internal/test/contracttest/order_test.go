package contracttest

import (
	"slices"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
)

// orderly are the rules that hold for any sequence of calls. The other rules assume that callers respect the order of a
// flow: this test applies edges that were never staged, replays ended executions, and acknowledges cancels without
// performing them.
var orderly = []invariant.Rule{
	invariant.RuleState, invariant.RuleLaneIndex, invariant.RuleScore, invariant.RuleLease, invariant.RuleTimers, invariant.RuleClosed,
	invariant.RuleHeld,
}

// TestRandomCallsKeepIndexesConsistent makes fitting calls in any order, on executions of submitted flows and others, and checks
// after each that records and indexes agree.
func TestRandomCallsKeepIndexesConsistent(t *testing.T) {
	t.Parallel()
	calls := 400
	if testing.Short() {
		calls = 100
	}
	each(t, func(t *testing.T, b *bench) {
		g := newGenerator(b, randseed.Of(t, 0))
		for i := range calls {
			if i%100 == 0 {
				g.reset()
				g.submit()
			}
			kind := pick(g.r, g.kinds...)
			f := g.prepare(kind.name)
			function, keys, args, err := kind.make(g, f)
			if err != nil {
				t.Fatalf("%s: %v", kind.name, err)
			}
			result := b.raw(t.Context(), function, keys, args)
			report, err := invariant.Check(t.Context(), b.client, b.prefix, invariant.AnyTime)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range report.Violations {
				if slices.Contains(orderly, v.Rule) {
					code, scriptError := refusalOf(result)
					t.Fatalf("after %d calls, the last %s %q (%s%s)\nbefore: %v\n%s", i, function, args, code, scriptError, f.core, v)
				}
			}
		}
	})
}
