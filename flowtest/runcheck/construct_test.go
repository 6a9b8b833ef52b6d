package runcheck_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest/runcheck"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

type pair struct {
	ID   int
	List []int
}

// constructs are flows that have each construct, each in several states while the waitpoints "hold" are open.
type constructs struct {
	t    *testing.T
	defs []*flow.Definition[int, int]
}

var (
	inc  = activity.New("construct.inc", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	list = activity.New("construct.list", func(_ context.Context, n int) ([]int, error) { return []int{n, n + 1}, nil })
	fail = activity.New("construct.fail", func(context.Context, int) (int, error) {
		return 0, activity.NonRetryable(activity.Category(errors.New("no stock"), "stock"))
	})
	later = activity.New("construct.later", func(context.Context, int) (int, error) {
		return 0, activity.RetryAfter(errors.New("not yet"), time.Hour)
	})
	nap = activity.New("construct.nap", func(ctx context.Context, n int) (int, error) {
		return n, activity.Sleep(ctx, "nap", time.Hour)
	})
	ask    = activity.New("construct.ask", func(ctx context.Context, _ int) (int, error) { return activity.Await[int](ctx, "answer") })
	cont   = activity.New("construct.continue", func(_ context.Context, p pair) (int, error) { return 0, continued(p) })
	undo   = activity.New("construct.undo", func(_ context.Context, f flow.Failure) (int, error) { return len(f.Reason), nil })
	sum    = activity.New("construct.sum", func(_ context.Context, all []int) (int, error) { return len(all), nil })
	paired = activity.New("construct.pair", func(_ context.Context, p pair) (pair, error) { return p, nil })
	told   = activity.New("construct.told", func(_ context.Context, all []flow.ItemOutcome[int]) (int, error) { return len(all), nil })
	batch  = activity.NewBatch("construct.batch", func(_ context.Context, items []int) ([]activity.ItemResult[int], error) {
		results := make([]activity.ItemResult[int], len(items))
		for i, n := range items {
			results[i].Value = n
		}
		return results, nil
	})
	enough = activity.New("construct.enough", func(_ context.Context, n int) (bool, error) { return n > 1, nil })
	plan   = activity.New("construct.plan", func(context.Context, int) (flow.Plan[int], error) {
		f := flow.New[int, int]("construct-planned")
		done := flow.Node(f, "inc", inc, f.Input())
		flow.Return(f, flow.Node(f, "ask", ask, done))
		def, err := f.Build()
		if err != nil {
			return flow.Plan[int]{}, err
		}
		return flow.PlanOf(def, 7)
	})
)

func continued(p pair) error {
	if p.ID < 3 {
		return activity.ContinueAsNew(pair{p.ID + 1, []int{p.ID}})
	}
	return activity.RetryAfter(errors.New("not yet"), time.Hour)
}

func (c *constructs) add(name string, build func(*flow.Builder[int, int])) *flow.Definition[int, int] {
	f := flow.New[int, int]("construct-" + name)
	build(f)
	def, err := f.Build()
	require.NoError(c.t, err, name)
	c.defs = append(c.defs, def)
	return def
}

func newConstructs(t *testing.T) *constructs {
	c := &constructs{t: t}
	inner := c.add("inner", func(f *flow.Builder[int, int]) {
		n := flow.Node(f, "inc", inc, f.Input())
		flow.Waitpoint[int](f, "hold", flow.After(n))
		flow.Return(f, n)
	})
	quick := c.add("quick", func(f *flow.Builder[int, int]) { flow.Return(f, flow.Node(f, "inc", inc, f.Input())) })
	half := c.add("half", func(f *flow.Builder[int, int]) {
		even := flow.When(f.Input(), "even", func(n int) bool { return n%2 == 0 })
		flow.Return(f, flow.Node(f, "inc", inc, f.Input(), even))
	})
	broken := c.add("broken", func(f *flow.Builder[int, int]) { flow.Return(f, flow.Node(f, "fail", fail, f.Input())) })

	c.add("conditions", func(f *flow.Builder[int, int]) {
		n := flow.Node(f, "inc", inc, f.Input())
		large := flow.When(n, "large", func(n int) bool { return n > 5 })
		kind := flow.Switch(f.Input(), "kind", func(n int) string { return fmt.Sprint("k", n) }, "k7", "k8")
		odd := flow.Switch(f.Input(), "odd", func(int) string { return "neither" }, "one")
		flow.Waitpoint[int](f, "hold", large)
		flow.Node(f, "small", inc, n, large.Not())
		flow.Node(f, "k7", inc, n, kind.Case("k7"))
		k8 := flow.Node(f, "k8", inc, n, kind.Case("k8"))
		flow.Node(f, "or-else", inc, flow.OrElse(k8, 8))
		flow.Node(f, "one", inc, n, odd.Case("one"))
		flow.Sleep(f, "rest", time.Hour, odd.Default())
		flow.Return(f, n)
	})
	c.add("waits", func(f *flow.Builder[int, int]) {
		flow.Waitpoint[string](f, "hold")
		flow.WaitpointSignals[pair](f, "signals", activity.AtLeast(2))
		flow.Sleep(f, "sleep", time.Hour)
		flow.Until(f, "until", flow.Const(time.Now().Add(-time.Hour)))
		for name, a := range map[string]*activity.Activity[int, int]{"later": later, "nap": nap, "ask": ask, "batch": batch} {
			flow.Node(f, name, a, f.Input())
		}
		flow.Node(f, "continue", cont, flow.Const(pair{1, []int{1}}))
		flow.Return(f, flow.Node(f, "inc", inc, f.Input()))
	})
	c.add("children", func(f *flow.Builder[int, int]) {
		all := flow.Node(f, "list", list, f.Input())
		flow.Sub(f, "sub", inner, f.Input())
		flow.Sub(f, "sub-quick", quick, f.Input())
		flow.Sub(f, "sub-half", half, flow.Const(3))
		flow.Node(f, "sum", sum, flow.Map(f, "map", inc, all))
		flow.Map(f, "map-asks", ask, all)
		flow.Map(f, "map-fails", fail, all)
		flow.Node(f, "told", told, flow.MapOutcomes(f, "outcomes", fail, all))
		flow.MapFlow(f, "flows", inner, all)
		flow.Node(f, "sum-flows", sum, flow.MapFlow(f, "flows-quick", quick, all))
		flow.MapFlowOutcomes(f, "flows-broken", broken, all)
		flow.Loop(f, "loop", inner, enough, f.Input(), 3)
		flow.Node(f, "after-loop", inc, flow.Loop(f, "loop-quick", quick, enough, flow.Const(0), 9))
		flow.Expand(f, "expand", plan, f.Input(), flow.MayRun(inc, ask))
		flow.Waitpoint[int](f, "hold")
		flow.Return(f, flow.Node(f, "inc", inc, f.Input()))
	})
	c.add("joins", func(f *flow.Builder[int, int]) {
		one, two, slow := flow.Node(f, "one", inc, f.Input()), flow.Node(f, "two", inc, f.Input()), flow.Node(f, "ask", ask, f.Input())
		flow.Node(f, "any", inc, flow.AnyOf(one, slow), flow.LetRun())
		flow.Node(f, "quorum", sum, flow.Quorum(2, one, two, slow), flow.LetRun())
		flow.Node(f, "all", sum, flow.List(one, two))
		flow.Node(f, "struct", paired, flow.Struct[pair](flow.Field("ID", one), flow.Field("List", flow.List(one, two))))
		flow.Node(f, "after-any", inc, f.Input(), flow.AfterAny(one, slow), flow.LetRun())
		flow.Waitpoint[int](f, "hold")
		flow.Return(f, one)
	})
	c.add("failures", func(f *flow.Builder[int, int]) {
		bad, good := flow.Node(f, "bad", fail, f.Input()), flow.Node(f, "good", inc, f.Input())
		flow.Node(f, "undo", undo, flow.FailureOf(bad), flow.OnFailure(bad))
		flow.Node(f, "undo-any", undo, flow.FailureOf(bad, good), flow.OnAnyFailure(bad, good))
		flow.Node(f, "always", undo, flow.FailureOf(good), flow.Always(good))
		flow.Node(f, "skipped", inc, bad)
		flow.Node(f, "cleanup", undo, flow.FailureOf(bad, good), flow.Finally(time.Hour))
		flow.Waitpoint[int](f, "hold", flow.Always(bad))
		flow.Return(f, good)
	})
	return c
}

// program is the one that has started the runs.
func (c *constructs) program() runcheck.Program {
	var p runcheck.Program
	var w runcheck.Worker
	for _, def := range c.defs {
		p.Flows = append(p.Flows, def)
		w.Activities = append(w.Activities, def.Handlers()...)
	}
	p.Workers = []runcheck.Worker{w}
	return p
}

// The program that has started runs has no problem with them, whatever they are made of and however far they are.
func TestOwnRunsAreClean(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := newConstructs(t)
		b.Keeper(t)
		for _, def := range c.defs {
			_, err := runtime.Start(ctx, b.Client, def, 7, runtime.WithID("one"))
			require.NoError(t, err)
		}
		require.Empty(t, problems(t, c.program(), runcheck.Open(ctx, b.Client)), "before any worker")
		b.Worker(t, c.program().Workers[0].Activities)
		settled := map[string]map[string]fabrictype.NodeState{
			"construct-conditions": {"hold": fabrictype.NodeSuspended, "rest": fabrictype.NodeSuspended, "k7": fabrictype.NodeSucceeded, "k8": fabrictype.NodeSkipped, "or-else": fabrictype.NodeSucceeded},
			"construct-waits":      {"later": fabrictype.NodeDelayed, "nap": fabrictype.NodeSuspended, "ask": fabrictype.NodeSuspended, "batch": fabrictype.NodeSucceeded, "continue": fabrictype.NodeDelayed},
			"construct-children": {
				"sub": fabrictype.NodeWaitingChildren, "flows": fabrictype.NodeWaitingChildren, "loop": fabrictype.NodeWaitingChildren,
				"expand": fabrictype.NodeWaitingChildren, "map-asks": fabrictype.NodeWaitingChildren, "sum": fabrictype.NodeSucceeded,
				"told": fabrictype.NodeSucceeded, "after-loop": fabrictype.NodeSucceeded, "map-fails": fabrictype.NodeFailed,
			},
			"construct-joins":    {"any": fabrictype.NodeSucceeded, "quorum": fabrictype.NodeSucceeded, "struct": fabrictype.NodeSucceeded, "all": fabrictype.NodeSucceeded},
			"construct-failures": {"undo": fabrictype.NodeSucceeded, "always": fabrictype.NodeSucceeded, "hold": fabrictype.NodeSuspended},
		}
		enginetest.Eventually(t, func() string {
			for name, nodes := range settled {
				d, err := b.Client.Run(name, "one").Describe(ctx)
				require.NoError(t, err)
				for _, n := range d.Nodes {
					if want, ok := nodes[n.Name]; ok && n.State != want {
						return fmt.Sprintf("node %s of %s is %s, want %s: %s", n.Name, name, n.State, want, n.Reason)
					}
				}
			}
			return ""
		})
		require.Empty(t, problems(t, c.program(), runcheck.Open(ctx, b.Client)), "in the middle")
		for _, def := range c.defs {
			_ = b.Client.Run(def.Name(), "one").Cancel(ctx, "enough") // some are over
		}
		for _, def := range c.defs {
			run := b.Client.Run(def.Name(), "one")
			enginetest.Eventually(t, func() string {
				d, err := run.Describe(ctx)
				require.NoError(t, err)
				if d.ClosedAt.IsZero() {
					return "the run is open"
				}
				return ""
			})
		}
		require.Empty(t, problems(t, c.program(), described(ctx, b.Client)), "in the end")
	})
}

// described yields all runs with their values.
func described(ctx context.Context, client *runtime.Client) iter.Seq2[*runtime.RunDescription, error] {
	return func(yield func(*runtime.RunDescription, error) bool) {
		for run, err := range client.Runs(ctx, runtime.RunQuery{Children: true}) {
			if err != nil {
				yield(nil, err)
				return
			}
			d, err := client.Run(run.Flow, run.Run).Describe(ctx, runtime.DescribeOptions{Values: true, ValueBytes: describe.MaxValueBytes})
			if !yield(d, err) {
				return
			}
		}
	}
}

// A condition without the case that it has decided for is found.
func TestRemovedCaseIsAProblem(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		kinds := func(other string) *flow.Definition[int, int] {
			f := flow.New[int, int]("kinds")
			chosen := "image"
			if other == "gone" {
				chosen = "film"
			}
			kind := flow.Switch(f.Input(), "kind", func(int) string { return chosen }, chosen, other)
			flow.Waitpoint[int](f, chosen, kind.Case(chosen))
			flow.Waitpoint[int](f, other, kind.Case(other))
			flow.Return(f, flow.Node(f, "inc", inc, f.Input()))
			def, err := f.Build()
			require.NoError(t, err)
			return def
		}
		first, second := kinds("text"), kinds("gone")
		run, err := runtime.Start(ctx, b.Client, first, 7)
		require.NoError(t, err)
		b.Worker(t, first.Handlers())
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			for _, n := range d.Nodes {
				if n.Name == "kind" && n.State != fabrictype.NodeSucceeded {
					return "the condition is " + string(n.State)
				}
			}
			return ""
		})
		of := func(def *flow.Definition[int, int]) runcheck.Program {
			return runcheck.Program{Workers: []runcheck.Worker{{Activities: def.Handlers()}}, Flows: []runtime.Definition{def}}
		}
		require.Empty(t, problems(t, of(first), runcheck.Open(ctx, b.Client)))
		require.Equal(t, []string{`kind result_mismatch the condition "kinds.kind" has no case "image" any more, which was decided`},
			problems(t, of(second), runcheck.Open(ctx, b.Client)))
	})
}
