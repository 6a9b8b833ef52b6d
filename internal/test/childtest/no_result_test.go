package childtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// priced is a flow that returns ten times an even number, and of an odd one nothing.
func priced(t testing.TB, price *activity.Activity[int, int]) *flow.Definition[int, int] {
	f := flow.New[int, int]("priced")
	even := flow.When(f.Input(), "even", func(n int) bool { return n%2 == 0 })
	flow.Return(f, flow.Node(f, "price", price, f.Input(), even))
	return mustBuild(t, f)
}

func mustBuild[In, Out any](t testing.TB, f *flow.Builder[In, Out]) *flow.Definition[In, Out] {
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func tenfold() *activity.Activity[int, int] {
	return activity.New("price", func(_ context.Context, n int) (int, error) { return 10 * n, nil })
}

// A sub-flow whose result was skipped is skipped itself, and so are its downstreams; a join takes the other branch.
func TestSkippedResultOfASubFlow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		charge := activity.New("charge", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		f := flow.New[int, int]("order")
		inner := priced(t, tenfold())
		sub := flow.Sub(f, "sub", around(t, "middle", inner), f.Input())
		charged := flow.Node(f, "charge", charge, sub)
		flow.Node(f, "undo", charge, flow.Const(0), flow.OnFailure(charged))
		spare := flow.Node(f, "spare", charge, flow.Const(-2))
		flow.Return(f, flow.Node(f, "first", charge, flow.AnyOf(charged, spare), flow.LetRun()))
		def := mustBuild(t, f)
		strict := flow.New[int, int]("strict")
		flow.Return(strict, flow.Node(strict, "charge", charge, flow.Sub(strict, "sub", inner, strict.Input())))
		strictDef := mustBuild(t, strict)
		b.KeepingWorker(t, slices.Concat(def.Handlers(), strictDef.Handlers()), runtime.WorkerConfig{Concurrency: 8})

		run, err := runtime.Start(ctx, b.Client, strictDef, 3)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrNoResult)
		sub3 := nodeNow(t, ctx, run.RunRef, "sub")
		require.Equal(t, fabrictype.NodeSkipped, sub3.State)
		require.Contains(t, sub3.Reason, "has no result: node price: condition even of the input is false")
		require.Equal(t, fabrictype.NodeSkipped, nodeNow(t, ctx, run.RunRef, "charge").State)
		require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunFailed), runtime.ErrNothingToRerun)

		// A rerun of all nodes runs the sub-flow again, and skips its downstreams again.
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrNoResult)
		// So does a fork from the condition's side, and one with another input has a result.
		fork, err := run.Fork(ctx, runtime.ForkOptions{Input: 4})
		require.NoError(t, err)
		forked, err := runtime.Attach(b.Client.Run("strict", fork.ID()), strictDef)
		require.NoError(t, err)
		out, err := forked.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 41, out)

		joined, err := runtime.Start(ctx, b.Client, def, 3)
		require.NoError(t, err)
		out, err = joined.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 0, out)
		d, err := joined.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunSucceeded, d.State)
		require.Equal(t, fabrictype.NodeSkipped, nodeNow(t, ctx, joined.RunRef, "undo").State)
		b.Settle(t)
	})
}

// Items of maps: a list has the existing results only, outcomes mark the skipped ones.
func TestSkippedResultsOfItems(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := priced(t, tenfold())
		f := flow.New[[]int, []int]("list")
		flow.Return(f, flow.MapFlow(f, "each", def, f.Input(), flow.ItemsAtOnce(2)))
		list := mustBuild(t, f)
		g := flow.New[[]int, []flow.ItemOutcome[int]]("outcomes")
		flow.Return(g, flow.MapFlowOutcomes(g, "each", def, g.Input()))
		outcomes := mustBuild(t, g)
		b.KeepingWorker(t, slices.Concat(list.Handlers(), outcomes.Handlers()), runtime.WorkerConfig{Concurrency: 8})
		for _, c := range []struct{ in, want []int }{
			{[]int{1, 2, 3, 4, 5}, []int{20, 40}}, {[]int{1, 3}, []int{}}, {[]int{2, 3}, []int{20}},
		} {
			run, err := runtime.Start(ctx, b.Client, list, c.in)
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, c.want, out)
		}
		run, err := runtime.Start(ctx, b.Client, outcomes, []int{1, 2})
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Len(t, out, 2)
		require.Equal(t, fabrictype.OutcomeSkipped, out[0].Outcome)
		require.Contains(t, out[0].Reason, "condition even of the input is false")
		require.Error(t, out[0].Err())
		require.Equal(t, flow.ItemOutcome[int]{Outcome: fabrictype.OutcomeSucceeded, Value: 20}, out[1])
		for item, err := range run.Items(ctx, "each", 0) {
			require.NoError(t, err)
			require.Equal(t, item.Index == 0, item.State == fabrictype.NodeSkipped)
		}
		b.Settle(t)
	})
}

// A loop fails if its turn has no state to continue with; a plan is skipped like a sub-flow.
func TestSkippedResultsOfLoopsAndPlans(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		turn := flow.New[int, int]("turn")
		add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		small := flow.When(turn.Input(), "small", func(n int) bool { return n < 2 })
		flow.Return(turn, flow.Node(turn, "add", add, turn.Input(), small))
		until := activity.New("until", func(context.Context, int) (bool, error) { return false, nil })
		f := flow.New[int, int]("loop")
		flow.Return(f, flow.Loop(f, "turns", mustBuild(t, turn), until, f.Input(), 10))
		loop := mustBuild(t, f)
		inner := priced(t, tenfold())
		planner := activity.New("planner", func(_ context.Context, n int) (flow.Plan[int], error) {
			p := flow.New[int, int]("plan")
			flow.Return(p, flow.Sub(p, "inner", inner, p.Input()))
			def, err := p.Build()
			if err != nil {
				return flow.Plan[int]{}, err
			}
			return flow.PlanOf(def, n)
		})
		g := flow.New[int, int]("expand")
		flow.Return(g, flow.Node(g, "behind", add, flow.Expand(g, "grow", planner, g.Input(), flow.MayRun(inner.Handlers()...))))
		expand := mustBuild(t, g)
		b.KeepingWorker(t, slices.Concat(loop.Handlers(), expand.Handlers()), runtime.WorkerConfig{Concurrency: 8})

		run, err := runtime.Start(ctx, b.Client, loop, 0)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		failedAs(t, err, "child_run", "turn 3 of the loop: run loop/"+run.ID()+"/turns#3 of flow turn has no result: node add: condition small")

		grown, err := runtime.Start(ctx, b.Client, expand, 3)
		require.NoError(t, err)
		_, err = grown.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrNoResult)
		require.Equal(t, fabrictype.NodeSkipped, nodeNow(t, ctx, grown.RunRef, "behind").State)
		grown, err = runtime.Start(ctx, b.Client, expand, 4)
		require.NoError(t, err)
		out, err := grown.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 41, out)
		b.Settle(t)
	})
}

// textCodec encodes a text as its bytes, so that an empty one has none, as the zero message of protobuf.
type textCodec struct{}

func (textCodec) Name() string { return "text" }

func (textCodec) Encode(v any) ([]byte, error) { return []byte(v.(string)), nil }

func (textCodec) Decode(data []byte, target any) error {
	text, ok := target.(*string)
	if !ok || strings.HasPrefix(string(data), "{") {
		return fmt.Errorf("%q is not a text for %T", data, target)
	}
	*text = string(data)
	return nil
}

// An empty result is a result: it is neither skipped nor missing.
func TestResultsWithoutBytes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		coded := activity.WithCodec(textCodec{})
		trim := activity.New("trim", func(_ context.Context, s string) (string, error) { return strings.TrimSpace(s), nil }, coded)
		quote := activity.New("quote", func(_ context.Context, s string) (string, error) { return "<" + s + ">", nil }, coded)
		newFlow := func(name string) *flow.Builder[string, string] {
			return flow.New[string, string](name, flow.WithCodec(textCodec{}))
		}
		f := newFlow("inner")
		flow.Return(f, flow.Node(f, "trim", trim, f.Input()))
		inner := mustBuild(t, f)
		f = newFlow("outer")
		flow.Return(f, flow.Node(f, "quote", quote, flow.Sub(f, "sub", inner, f.Input())))
		outer := mustBuild(t, f)
		f = newFlow("around")
		flow.Return(f, flow.Sub(f, "sub", inner, f.Input()))
		around := mustBuild(t, f)
		f = newFlow("any")
		flow.Return(f, flow.Node(f, "quote", quote, flow.AnyOf(flow.Sub(f, "sub", inner, f.Input()), flow.Node(f, "trim", trim, f.Input())),
			flow.LetRun()))
		joined := mustBuild(t, f)
		defs := map[*flow.Definition[string, string]]string{inner: "", outer: "<>", around: "", joined: "<>"}
		b.KeepingWorker(t, []activity.Handler{trim, quote}, runtime.WorkerConfig{Concurrency: 8})
		for def, want := range defs {
			for _, in := range []string{" ", ""} {
				run, err := runtime.Start(ctx, b.Client, def, in)
				require.NoError(t, err)
				out, err := run.Result(ctx)
				require.NoError(t, err, def.Name())
				require.Equal(t, want, out, def.Name())
				d, err := run.Describe(ctx, runtime.DescribeOptions{Values: true})
				require.NoError(t, err)
				for _, n := range d.Nodes {
					require.NotNil(t, n.Result, "%s of %s", n.Name, def.Name())
				}
				require.NotNil(t, d.Result)
			}
		}
		b.Settle(t)
	})
}

// The reason of a failure names each node on the path to it once, and the reason of an item is the reason of its node
// in the child run.
func TestReasonsOfNestedFailures(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		deploy := activity.New("deploy", func(_ context.Context, n int) (int, error) { return 0, fmt.Errorf("no space for %d", n) },
			activity.Retry(activity.RetryPolicy{Attempts: 1}))
		release := around(t, "release", around(t, "middle", plusOne(t, "core", deploy)))
		f := flow.New[[]int, []flow.ItemOutcome[int]]("outcomes")
		flow.Return(f, flow.MapFlowOutcomes(f, "each", plusOne(t, "core", deploy), f.Input()))
		outcomes := mustBuild(t, f)
		g := flow.New[[]int, []int]("list")
		flow.Return(g, flow.MapFlow(g, "each", plusOne(t, "core", deploy), g.Input()))
		list := mustBuild(t, g)
		b.KeepingWorker(t, []activity.Handler{deploy}, runtime.WorkerConfig{Concurrency: 8})

		run, err := runtime.Start(ctx, b.Client, release, 1, runtime.WithID("r"))
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.EqualError(t, err, "run r of flow release: run failed: node inner: node inner: node add: no space for 1")
		many, err := runtime.Start(ctx, b.Client, outcomes, []int{2})
		require.NoError(t, err)
		out, err := many.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "no space for 2", out[0].Reason)
		mapped, err := runtime.Start(ctx, b.Client, list, []int{3}, runtime.WithID("r"))
		require.NoError(t, err)
		_, err = mapped.Result(ctx)
		require.EqualError(t, err, "run r of flow list: run failed: node each: node item-0: no space for 3")
		b.Settle(t)
	})
}
