package childtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// nodeNow describes a node of a run.
func nodeNow(t *testing.T, ctx context.Context, run *runtime.RunRef, node string) fabrictype.Node {
	t.Helper()
	d, err := run.Describe(ctx)
	require.NoError(t, err)
	for _, n := range d.Nodes {
		if n.Name == node {
			return n
		}
	}
	require.Fail(t, "no such node", node)
	return fabrictype.Node{}
}

// emptyAfterPurge purges a run and waits until nothing is left of it and its child runs.
func emptyAfterPurge(t *testing.T, ctx context.Context, b *enginetest.Bench, run *runtime.RunRef) {
	t.Helper()
	require.NoError(t, run.Purge(ctx))
	enginetest.Eventually(t, func() string {
		if n := len(b.Settle(t).FlowIDs()); n > 0 {
			return fmt.Sprintf("%d runs are left", n)
		}
		return ""
	})
}

// failedAs checks the category and the reason of a failed run.
func failedAs(t *testing.T, err error, category, reason string) {
	t.Helper()
	failed, ok := errors.AsType[*runtime.RunError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, category, failed.Category, err)
	require.ErrorContains(t, err, reason)
}

// doubling is a loop that doubles until there are a hundred, at most n times.
func doubling(t *testing.T, double *activity.Activity[int, int], until *activity.Activity[int, bool], n int) *flow.Definition[int, int] {
	t.Helper()
	f := flow.New[int, int]("grow")
	flow.Return(f, flow.Loop(f, "turns", plusOne(t, "turn", double), until, f.Input(), n))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// Each turn of a loop is a run with the result of the previous turn as its input, until the condition holds.
func TestLoop(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		until := activity.New("hundred", func(_ context.Context, n int) (bool, error) { return n >= 100, nil })
		def := doubling(t, double, until, 10)
		require.Len(t, def.Handlers(), 2)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 3, runtime.WithID("r"))
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 192, out)
		n := nodeNow(t, ctx, run.RunRef, "turns")
		require.Equal(t, fabrictype.KindLoop, n.Kind)
		require.Equal(t, 6, n.Generation)
		require.Equal(t, "turn", n.Child.Flow)
		turns, err := run.Turns(ctx, "turns")
		require.NoError(t, err)
		require.Len(t, turns, 6)
		for i, turn := range turns {
			require.Equal(t, i+1, turn.Turn)
			require.Equal(t, fabrictype.RunSucceeded, turn.State)
			ref, err := runtime.Attach(b.Client.Run(turn.Flow, turn.Run), plusOne(t, "turn", double))
			require.NoError(t, err)
			got, err := ref.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 6<<i, got)
		}
		_, err = run.Turns(ctx, "none")
		require.ErrorIs(t, err, engine.ErrUnknownNode)
		_, err = b.Client.Run("turn", turns[0].Run).Turns(ctx, "add")
		require.ErrorIs(t, err, engine.ErrNoTurns)
		continued := 0
		for e, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
			if e.Kind == eventkind.Continued {
				continued++
				require.Equal(t, fmt.Sprint(continued+1), e.Detail)
			}
			if e.Ends() {
				break
			}
		}
		require.Equal(t, 5, continued)

		// It begins anew, and nothing is left of the turns before.
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		out, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 192, out)
		enginetest.Eventually(t, func() string {
			if n := len(b.Settle(t).FlowIDs()); n != 7 {
				return fmt.Sprintf("there are %d runs, not 7", n)
			}
			return ""
		})
		emptyAfterPurge(t, ctx, b, run.RunRef)
	})
}

// A loop fails if its condition does not hold in time; a rerun of a loop with a failed turn continues at that turn.
func TestLoopFails(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var broken atomic.Bool
		var doubled atomic.Int64
		broken.Store(true)
		double := activity.New("double", func(_ context.Context, n int) (int, error) {
			if n == 12 && broken.Load() {
				return 0, activity.NonRetryable(activity.Category(errBad, "broken"))
			}
			doubled.Add(1)
			return 2 * n, nil
		})
		until := activity.New("hundred", func(_ context.Context, n int) (bool, error) { return n >= 100, nil })
		def := doubling(t, double, until, 6)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 3)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		failedAs(t, err, "broken", "")
		require.Equal(t, 3, nodeNow(t, ctx, run.RunRef, "turns").Generation)
		broken.Store(false)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 192, out)
		require.Equal(t, int64(6), doubled.Load())

		few, err := runtime.Start(ctx, b.Client, doubling(t, double, until, 2), 3)
		require.NoError(t, err)
		_, err = few.Result(ctx)
		failedAs(t, err, engine.CategoryTooManyTurns, `after 2 turns "hundred" is still false`)

		// The turn that runs ends with the run.
		hold := make(chan struct{})
		defer close(hold)
		slow := activity.New("slow", func(ctx context.Context, n int) (int, error) {
			select {
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			case <-hold:
				return n, nil
			}
		})
		slowly := doubling(t, slow, until, 2)
		b.Worker(t, slowly.Handlers())
		open, err := runtime.Start(ctx, b.Client, slowly, 3)
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			if n := nodeNow(t, ctx, open.RunRef, "turns"); n.Child == nil || n.Child.State != fabrictype.RunRunning {
				return "the turn does not run"
			}
			return ""
		})
		require.NoError(t, open.Cancel(ctx, "enough"))
		enginetest.Eventually(t, func() string {
			if n := nodeNow(t, ctx, open.RunRef, "turns"); n.Child.State != fabrictype.RunCancelled {
				return "the turn is " + string(n.Child.State)
			}
			return ""
		})
		b.Settle(t)
	})
}

// tree is a recursive plan: a number becomes the sum of the numbers below it.
func tree(t *testing.T, opts ...flow.NodeOption) (*flow.Definition[int, int], *atomic.Int64) {
	t.Helper()
	planned := new(atomic.Int64)
	add := activity.New("sum", func(_ context.Context, list []int) (int, error) {
		sum := 1
		for _, n := range list {
			sum += n
		}
		return sum, nil
	})
	var grow *activity.Activity[int, flow.Plan[int]]
	grow = activity.New("grow", func(_ context.Context, n int) (flow.Plan[int], error) {
		planned.Add(1)
		if n == 0 {
			return flow.Done(1)
		}
		f := flow.New[int, int]("tree")
		var below []flow.Ref[int]
		for i := range 2 {
			below = append(below, flow.Expand(f, fmt.Sprintf("child-%d", i), grow, flow.Const(n-1), append(opts, flow.MayRun(add))...))
		}
		flow.Return(f, flow.Node(f, "sum", add, flow.List(below...)))
		def, err := f.Build()
		if err != nil {
			return flow.Plan[int]{}, activity.NonRetryable(err)
		}
		return flow.PlanOf(def, n)
	})
	f := flow.New[int, int]("forest")
	flow.Return(f, flow.Expand(f, "root", grow, f.Input(), append(opts, flow.MayRun(add))...))
	def, err := f.Build()
	require.NoError(t, err)
	return def, planned
}

// A plan is run as a child run; plans may be recursive, as deep as the node allows.
func TestExpand(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def, planned := tree(t)
		require.Len(t, def.Handlers(), 2)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 3, runtime.WithID("r"))
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 15, out)
		require.Equal(t, int64(15), planned.Load())
		n := nodeNow(t, ctx, run.RunRef, "root")
		require.Equal(t, fabrictype.KindExpansion, n.Kind)
		require.Equal(t, "tree", n.Child.Flow)
		require.Equal(t, "grow", n.Activity)
		// The plan has the form of every flow.
		d, err := b.Client.Run("tree", n.Child.Run).Describe(ctx)
		require.NoError(t, err)
		require.Contains(t, d.Outline(), "child-0")
		require.Len(t, b.Settle(t).FlowIDs(), 1+7)

		leaf, err := runtime.Start(ctx, b.Client, def, 0)
		require.NoError(t, err)
		out, err = leaf.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, out)
		require.Nil(t, nodeNow(t, ctx, leaf.RunRef, "root").Child)
		require.NoError(t, leaf.Purge(ctx))
		emptyAfterPurge(t, ctx, b, run.RunRef)

		// The other worker makes plans that would be deeper: the node of the flow bounds them.
		shallow, _ := tree(t, flow.ExpandDepth(2))
		b.Worker(t, shallow.Handlers())
		deep, err := runtime.Start(ctx, b.Client, shallow, 5)
		require.NoError(t, err)
		_, err = deep.Result(ctx)
		failedAs(t, err, engine.CategoryTooDeep, "the run of the plan would be 3 plans deep, at most 2 are allowed")
		b.Settle(t)
	})
}

// A plan is stored for reruns: a rerun after its run failed reruns this run, and does not make another plan.
func TestExpandKeepsItsPlan(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var planned, worked atomic.Int64
		work := activity.New("work", func(_ context.Context, n int) (int, error) {
			if worked.Add(1) == 1 {
				return 0, activity.NonRetryable(activity.Category(errBad, "broken"))
			}
			return n, nil
		})
		plan := activity.New("plan", func(ctx context.Context, n int) (flow.Plan[int], error) {
			// A step and a sleep before the plan cost no other plan.
			at, err := activity.Step(ctx, "count", func(context.Context) (int, error) { return int(planned.Add(1)), nil })
			if err != nil {
				return flow.Plan[int]{}, err
			}
			if err := activity.Sleep(ctx, "think", time.Millisecond); err != nil {
				return flow.Plan[int]{}, err
			}
			return flow.PlanOf(plusOne(t, "planned", work), 10*n+at)
		})
		f := flow.New[int, int]("once")
		flow.Return(f, flow.Expand(f, "node", plan, f.Input(), flow.MayRun(work)))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 4)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		failedAs(t, err, "broken", "")
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 41, out)
		require.Equal(t, int64(1), planned.Load())
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		out, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 42, out)
		emptyAfterPurge(t, ctx, b, run.RunRef)
	})
}

// A plan that cannot be run fails the node.
func TestExpandRefusesPlans(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		work := activity.New("work", func(_ context.Context, n int) (int, error) { return n, nil })
		foreign := activity.New("foreign", func(_ context.Context, n int) (int, error) { return n, nil })
		plan := activity.New("plan", func(_ context.Context, n int) (flow.Plan[int], error) {
			switch n {
			case 0:
				return flow.Plan[int]{}, nil
			case 1:
				return flow.PlanOf(plusOne(t, "planned", foreign), n)
			case 2:
				return flow.PlanOf(around(t, "outer", plusOne(t, "planned", foreign)), n)
			case 3:
				g := flow.New[int, int]("deciding")
				small := flow.When(g.Input(), "small", func(n int) bool { return n < 10 })
				flow.Return(g, flow.Node(g, "node", work, g.Input(), small))
				def, err := g.Build()
				if err != nil {
					return flow.Plan[int]{}, err
				}
				return flow.PlanOf(def, n)
			}
			return flow.PlanOf(plusOne(t, "planned", work), n)
		})
		f := flow.New[int, int]("refused")
		flow.Return(f, flow.Expand(f, "node", plan, f.Input(), flow.MayRun(work)))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		for n, fault := range []string{
			"neither a graph nor a value", `it uses "foreign", which flow.MayRun does not name`, `it uses "foreign"`,
			`it uses the condition "deciding.small", which flow.MayRun does not name`,
		} {
			run, err := runtime.Start(ctx, b.Client, def, n)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			failedAs(t, err, engine.CategoryPlan, fault)
		}
		run, err := runtime.Start(ctx, b.Client, def, 7)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, out)
		b.Settle(t)
	})
}

// A map of a flow runs a pipeline for each item, also nested, with a bound on concurrent items.
func TestMapFlow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var running, most atomic.Int64
		add := activity.New("add", func(_ context.Context, n int) (int, error) {
			now := running.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			defer running.Add(-1)
			if n < 0 {
				return 0, activity.NonRetryable(activity.Category(errBad, "negative"))
			}
			return n + 1, nil
		})
		g := flow.New[[]int, []int]("row")
		flow.Return(g, flow.Map(g, "cells", add, g.Input()))
		row, err := g.Build()
		require.NoError(t, err)
		f := flow.New[[][]int, [][]int]("table")
		flow.Return(f, flow.MapFlow(f, "rows", row, f.Input(), flow.ItemsAtOnce(2)))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, [][]int{{1, 2}, {}, {3}, {4, 5, 6}, {7}}, runtime.WithID("r"))
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, [][]int{{2, 3}, {}, {4}, {5, 6, 7}, {8}}, out)
		require.LessOrEqual(t, most.Load(), int64(2*3))
		items := 0
		for item, err := range run.Items(ctx, "rows", 0) {
			require.NoError(t, err)
			require.Equal(t, fabrictype.NodeSucceeded, item.State)
			items++
		}
		require.Equal(t, 5, items)
		none, err := runtime.Start(ctx, b.Client, def, [][]int{})
		require.NoError(t, err)
		out, err = none.Result(ctx)
		require.NoError(t, err)
		require.Empty(t, out)
		require.NoError(t, none.Purge(ctx))
		emptyAfterPurge(t, ctx, b, run.RunRef)

		bad, err := runtime.Start(ctx, b.Client, def, [][]int{{1}, {-1}, {2}, {3}})
		require.NoError(t, err)
		_, err = bad.Result(ctx)
		failedAs(t, err, "negative", "")

		h := flow.New[[][]int, []flow.ItemOutcome[[]int]]("outcomes")
		flow.Return(h, flow.MapFlowOutcomes(h, "rows", row, h.Input(), flow.ItemsAtOnce(1)))
		tolerant, err := h.Build()
		require.NoError(t, err)
		all, err := runtime.Start(ctx, b.Client, tolerant, [][]int{{1}, {-1}, {2}})
		require.NoError(t, err)
		outcomes, err := all.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []int{3}, outcomes[2].Value)
		require.Equal(t, fabrictype.OutcomeFailed, outcomes[1].Outcome)
		require.Equal(t, "negative", outcomes[1].Category)
		b.Settle(t)
	})
}

// A function continues as new with a state, any number of times, and so executes more steps than its journal holds.
func TestContinueAsNew(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		type state struct{ Done, Generation int }
		const each, generations = 100, 4
		var steps, failures atomic.Int64
		crawl := activity.New("crawl", func(ctx context.Context, s state) (int, error) {
			s.Generation++
			for range each {
				_, err := activity.Step(ctx, "page", func(context.Context) (int64, error) { return steps.Add(1), nil })
				if err != nil {
					return 0, err
				}
				s.Done++
			}
			if s.Generation == 2 && failures.Add(1) < 3 {
				return 0, errBad // a retry has the state of its generation
			}
			if s.Generation < generations {
				return 0, fmt.Errorf("more: %w", activity.ContinueAsNew(s))
			}
			return s.Done, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 3, Factor: 1}))
		wrong := activity.New("wrong", func(_ context.Context, n int) (int, error) {
			return 0, activity.ContinueAsNew("text")
		})
		def := plusOneOf(t, "crawler", crawl)
		b.Keeper(t)
		b.Worker(t, append(def.Handlers(), wrong))
		run, err := runtime.Start(ctx, b.Client, def, state{})
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, each*generations, out)
		require.Equal(t, int64(each*generations), steps.Load())
		require.Equal(t, generations, nodeNow(t, ctx, run.RunRef, "only").Generation)

		// A rerun of a succeeded node begins with the input.
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		out, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, each*generations, out)
		require.Equal(t, int64(2*each*generations), steps.Load())

		bad, err := runtime.Start(ctx, b.Client, plusOneOf(t, "wrongly", wrong), 1)
		require.NoError(t, err)
		_, err = bad.Result(ctx)
		require.ErrorContains(t, err, `activity.ContinueAsNew got a state of type string; activity "wrong" takes int`)
		require.NoError(t, bad.Purge(ctx))
		emptyAfterPurge(t, ctx, b, run.RunRef)
	})
}

// plusOneOf is a flow of one node.
func plusOneOf[I, O any](t testing.TB, name string, a *activity.Activity[I, O]) *flow.Definition[I, O] {
	t.Helper()
	f := flow.New[I, O](name)
	flow.Return(f, flow.Node(f, "only", a, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}
