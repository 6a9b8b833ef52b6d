package flowtest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
)

var tell = activity.New("decide.tell", func(_ context.Context, in int) (int, error) { return in, nil })

// parity is a flow with a condition and a switch.
func parity(tb testing.TB) *flow.Definition[int, int] {
	tb.Helper()
	f := flow.New[int, int]("parity")
	even := flow.When(f.Input(), "even", func(n int) bool { return n%2 == 0 })
	yes := flow.Node(f, "yes", tell, f.Input(), even)
	no := flow.Node(f, "no", tell, f.Input(), even.Not())
	size := flow.Switch(yes, "size", func(int) string { return "small" }, "small", "large")
	flow.Node(f, "small", tell, yes, size.Case("small"))
	flow.Node(f, "large", tell, yes, size.Case("large"))
	flow.Node(f, "vast", tell, yes, size.Default())
	flow.Return(f, flow.Node(f, "end", tell, flow.AnyOf(yes, no)))
	def, err := f.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return def
}

func TestDecide(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		def := parity(t)
		run := flowtest.Start(t, def, 2)
		run.MustResult()
		run.Node("small").Succeeded()
		run.Node("no").Skipped()
		if table := run.Table(); !strings.Contains(table, "condition even of the input is true") {
			t.Errorf("the table does not say why the node was skipped:\n%s", table)
		}
		t.Decide("parity", "even", "false")
		run = flowtest.Start(t, def, 2)
		run.MustResult()
		run.Node("no").Succeeded()
		run.Node("size").Skipped()
		t.Decide("parity", "even", "true")
		t.Decide("parity", "size", "default")
		run = flowtest.Start(t, def, 2)
		run.MustResult()
		run.Node("vast").Succeeded()
		t.Decide("parity", "even", "maybe")
		run = flowtest.Start(t, def, 2)
		if failed := run.MustFail(); failed.Node != "even" {
			t.Errorf("node %s has failed", failed.Node)
		}
	})
}

// Workers that die before and after a decision change nothing: one branch runs, and the cleanup has one effect.
func TestStormOfConditions(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		f := flow.New[int, int]("storm-of-conditions")
		first := flow.Node(f, "first", tell, f.Input())
		even := flow.When(first, "even", func(n int) bool { return n%2 == 0 })
		yes := flow.Node(f, "yes", tell, first, even)
		no := flow.Node(f, "no", tell, first, even.Not())
		flow.Node(f, "undo", tell, f.Input(), flow.OnAnyFailure(first, yes))
		flow.Node(f, "tidy", tell, f.Input(), flow.Finally(0))
		flow.Return(f, flow.Node(f, "end", tell, flow.AnyOf(yes, no)))
		def, err := f.Build()
		if err != nil {
			t.Fatal(err)
		}
		flowtest.Fake(t, tell, func(ctx context.Context, in int) (int, error) {
			info, _ := activity.Info(ctx)
			t.Effect(ctx, info.ExecutionID)
			return in, nil
		})
		flowtest.Storm(t, def, 4, flowtest.StormConfig{Seed: 3})
	})
}
