package flowtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
)

// Timers pass in virtual time, to the millisecond, and can be stopped at.
func TestMonthsOfSleep(t *testing.T) {
	t.Parallel()
	nap := activity.New("nap", func(ctx context.Context, n int) (int, error) {
		return n, activity.Sleep(ctx, "nap", 30*24*time.Hour)
	})
	f := flow.New[time.Time, int]("months")
	slept := flow.Sleep(f, "sleep", 90*24*time.Hour)
	flow.Until(f, "until", f.Input(), flow.After(slept))
	flow.Return(f, flow.Node(f, "nap", nap, flow.Const(7), flow.After(slept)))
	def, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	flowtest.Run(t, func(t *flowtest.T) {
		begun := time.Now()
		run := flowtest.Start(t, def, begun.Add(100*24*time.Hour))
		run.Node("sleep").Is(fabrictype.NodeSuspended)
		t.Advance(89 * 24 * time.Hour)
		run.Node("sleep").Is(fabrictype.NodeSuspended)
		t.Advance(25 * time.Hour)
		run.Node("sleep").Is(fabrictype.NodeSucceeded)
		run.Node("nap").Is(fabrictype.NodeSuspended)
		if got := run.MustResult(); got != 7 {
			t.Errorf("the result is %d", got)
		}
		if late := time.Since(begun.Add(120 * 24 * time.Hour)); late < 0 || late > 5*time.Millisecond {
			t.Errorf("the run was over %s after its last timer", late)
		}
		run.Order("sleep", "nap")
	})
}

// Loops and plans run in a test like everything else, with fakes for their activities.
func TestGrowth(t *testing.T) {
	t.Parallel()
	more := activity.New("more", func(_ context.Context, n int) (int, error) { return n + 1, nil }, activity.Lane("elsewhere"))
	enough := activity.New("enough", func(_ context.Context, n int) (bool, error) { return n >= 3, nil })
	plan := activity.New("plan", func(ctx context.Context, n int) (flow.Plan[int], error) {
		if err := activity.Sleep(ctx, "think", time.Hour); err != nil {
			return flow.Plan[int]{}, err
		}
		g := flow.New[int, int]("planned")
		flow.Return(g, flow.Node(g, "more", more, g.Input()))
		def, err := g.Build()
		if err != nil {
			return flow.Plan[int]{}, err
		}
		return flow.PlanOf(def, n)
	})
	g := flow.New[int, int]("turn")
	flow.Return(g, flow.Expand(g, "plan", plan, g.Input(), flow.MayRun(more)))
	turn, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	f := flow.New[int, int]("turns")
	flow.Return(f, flow.Loop(f, "loop", turn, enough, f.Input(), 9))
	def, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	flowtest.Run(t, func(t *flowtest.T) {
		run := flowtest.Start(t, def, 0)
		if got := run.MustResult(); got != 3 {
			t.Errorf("the result is %d", got)
		}
		if took := run.Elapsed(); took < 3*time.Hour || took > 3*time.Hour+time.Minute {
			t.Errorf("three turns of an hour took %s", took)
		}
		if n := run.Node("loop").Description().Generation; n != 3 {
			t.Errorf("there were %d turns", n)
		}
	})
}
