package operatetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// traced counts how often its nodes run, by node.
type traced struct {
	mu    sync.Mutex
	ran   map[string]int
	fails map[string]bool
	act   *activity.Activity[string, string]
	join  *activity.Activity[[]string, string]
}

func newTraced() *traced {
	tr := &traced{ran: map[string]int{}, fails: map[string]bool{}}
	run := func(ctx context.Context, in string) (string, error) {
		info, _ := activity.Info(ctx)
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.ran[info.Node]++
		if tr.fails[info.Node] {
			return "", activity.NonRetryable(errors.New("set to fail"))
		}
		return info.Node + "(" + in + ")", nil
	}
	tr.act = activity.New("trace", run)
	tr.join = activity.New("join", func(ctx context.Context, in []string) (string, error) { return run(ctx, strings.Join(in, "+")) })
	return tr
}

// take returns the nodes that have run since the last call.
func (tr *traced) take() map[string]int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	ran := tr.ran
	tr.ran = map[string]int{}
	return ran
}

func (tr *traced) fail(node string, fails bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.fails[node] = fails
}

// diamond is in → left, right → end, and a handler of failures of left.
func (tr *traced) diamond(t *testing.T) *flow.Definition[string, string] {
	t.Helper()
	f := flow.New[string, string]("diamond")
	in := flow.Node(f, "in", tr.act, f.Input())
	left := flow.Node(f, "left", tr.act, in)
	right := flow.Node(f, "right", tr.act, in)
	end := flow.Node(f, "end", tr.join, flow.List(left, right))
	flow.Node(f, "undo", tr.act, flow.Const("undo"), flow.OnFailure(left))
	flow.Return(f, end)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func forkResult(t *testing.T, def *flow.Definition[string, string], ref *runtime.RunRef) string {
	t.Helper()
	run, err := runtime.Attach(ref, def)
	require.NoError(t, err)
	result, err := run.Result(enginetest.Context(t))
	require.NoError(t, err)
	return result
}

// A fork runs the nodes that its options select and their downstreams, and keeps the results of the rest.
func TestFork(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, tr := enginetest.Context(t), newTraced()
		def := tr.diamond(t)
		b.Worker(t, []activity.Handler{tr.act, tr.join})
		run, err := runtime.Start(ctx, b.Client, def, "x", runtime.WithID("origin"))
		require.NoError(t, err)
		require.Equal(t, "end(left(in(x))+right(in(x)))", forkResult(t, def, run.RunRef))
		require.Equal(t, map[string]int{"in": 1, "left": 1, "right": 1, "end": 1}, tr.take())

		_, err = run.Fork(ctx, runtime.ForkOptions{})
		require.ErrorIs(t, err, runtime.ErrNothingToRerun)
		for name, c := range map[string]struct {
			fork   runtime.ForkOptions
			result string
			ran    map[string]int
		}{
			"from":   {runtime.ForkOptions{From: []string{"right"}}, "end(left(in(x))+right(in(x)))", map[string]int{"right": 1, "end": 1}},
			"input":  {runtime.ForkOptions{Input: "y"}, "end(left(in(y))+right(in(y)))", map[string]int{"in": 1, "left": 1, "right": 1, "end": 1}},
			"result": {runtime.ForkOptions{Results: map[string]any{"left": "given"}}, "end(given+right(in(x)))", map[string]int{"end": 1}},
			"both": {
				runtime.ForkOptions{From: []string{"right"}, Results: map[string]any{"left": "given"}},
				"end(given+right(in(x)))", map[string]int{"right": 1, "end": 1},
			},
		} {
			fork, err := run.Fork(ctx, c.fork, runtime.WithID(name), runtime.WithTag("test.tag", "a"))
			require.NoError(t, err, name)
			require.Equal(t, c.result, forkResult(t, def, fork), name)
			require.Equal(t, c.ran, tr.take(), name)
			d, err := fork.Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, "origin", d.ForkedFrom)
			require.Equal(t, fabrictype.RunSucceeded, d.State)
			for _, n := range d.Nodes {
				if n.State == fabrictype.NodeSucceeded {
					require.Equal(t, c.ran[n.Name], n.Attempts, n.Name)
				}
			}
			again, err := run.Fork(ctx, c.fork, runtime.WithID(name), runtime.WithTag("test.tag", "a"))
			require.NoError(t, err)
			require.Equal(t, name, again.ID())
			require.Empty(t, tr.take())
		}
		_, err = run.Fork(ctx, runtime.ForkOptions{From: []string{"left"}}, runtime.WithID("from"))
		require.ErrorIs(t, err, engine.ErrRunConflict)
		var forks []string
		for f, err := range run.Forks(ctx) {
			require.NoError(t, err)
			forks = append(forks, f.Run)
		}
		require.ElementsMatch(t, []string{"from", "input", "result", "both"}, forks)
		fork := b.Client.Run("diamond", "result")
		diff, err := run.RunRef.Diff(ctx, fork)
		require.NoError(t, err)
		require.False(t, diff.Same())
		require.Equal(t, []bool{false, true, false}, []bool{diff.Input, diff.Result, diff.Graph})
		require.Equal(t, "origin", diff.B.ForkedFrom)
		for _, n := range diff.Nodes {
			require.Equal(t, n.Name == "left" || n.Name == "end", len(n.Differs) > 0, n.Name)
		}
		diff, err = run.RunRef.Diff(ctx, b.Client.Run("diamond", "from"))
		require.NoError(t, err)
		require.True(t, diff.Same())
		second, err := fork.Fork(ctx, runtime.ForkOptions{From: []string{"end"}})
		require.NoError(t, err)
		require.Equal(t, "end(given+right(in(x)))", forkResult(t, def, second))
		require.Equal(t, map[string]int{"end": 1}, tr.take())
		require.NoError(t, fork.Rerun(ctx, fabrictype.RerunAll))
		require.Equal(t, "end(left(in(x))+right(in(x)))", forkResult(t, def, fork))
		b.Settle(t)
	})
}

// A fork of a failed run runs the failed nodes, or continues with a given result instead; a fork of an open run runs
// the nodes that are open there.
func TestForkUnfinished(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, tr := enginetest.Context(t), newTraced()
		def := tr.diamond(t)
		tr.fail("left", true)
		worker := b.Worker(t, []activity.Handler{tr.act, tr.join})
		run, err := runtime.Start(ctx, b.Client, def, "x")
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.Equal(t, map[string]int{"in": 1, "left": 1, "right": 1, "undo": 1}, tr.take())
		byHand, err := run.Fork(ctx, runtime.ForkOptions{Results: map[string]any{"left": "by hand"}})
		require.NoError(t, err)
		require.Equal(t, "end(by hand+right(in(x)))", forkResult(t, def, byHand))
		require.Equal(t, map[string]int{"end": 1}, tr.take())
		tr.fail("left", false)
		fork, err := run.Fork(ctx, runtime.ForkOptions{})
		require.NoError(t, err)
		require.Equal(t, "end(left(in(x))+right(in(x)))", forkResult(t, def, fork))
		require.Equal(t, map[string]int{"left": 1, "end": 1}, tr.take())
		require.NoError(t, worker.Stop())

		open, err := runtime.Start(ctx, b.Client, def, "z")
		require.NoError(t, err)
		copied, err := open.Fork(ctx, runtime.ForkOptions{})
		require.NoError(t, err)
		require.NoError(t, open.Cancel(ctx, "its fork continues"))
		b.Worker(t, []activity.Handler{tr.act, tr.join})
		require.Equal(t, "end(left(in(z))+right(in(z)))", forkResult(t, def, copied))
		b.Settle(t)
	})
}

// Joins, waitpoints, maps and sub-flows that had succeeded are kept like other nodes.
func TestForkKinds(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, tr := enginetest.Context(t), newTraced()
		inner := flow.New[string, string]("inner")
		flow.Return(inner, flow.Node(inner, "step", tr.act, inner.Input()))
		sub, err := inner.Build()
		require.NoError(t, err)
		f := flow.New[string, string]("kinds")
		asked := flow.Waitpoint[string](f, "asked")
		below := flow.Sub(f, "below", sub, f.Input())
		each := flow.Map(f, "each", tr.act, flow.Const([]string{"1", "2"}))
		all := flow.Node(f, "all", tr.join, each)
		end := flow.Node(f, "end", tr.join, flow.List(asked, below, all))
		flow.Return(f, end)
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{tr.act, tr.join})
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, def, "x")
		require.NoError(t, err)
		_, err = run.SignalWait(ctx, runtime.WaitName{Node: "asked"}, runtime.Signal{Name: "a", Payload: "yes"})
		require.NoError(t, err)
		want := forkResult(t, def, run.RunRef)
		tr.take()
		fork, err := run.Fork(ctx, runtime.ForkOptions{From: []string{"end"}})
		require.NoError(t, err)
		require.Equal(t, want, forkResult(t, def, fork))
		require.Equal(t, map[string]int{"end": 1}, tr.take())
		other := flow.New[string, string]("kinds")
		kept := flow.Node(other, "all", tr.act, other.Input())
		flow.Return(other, flow.Node(other, "more", tr.act, kept))
		changed, err := other.Build()
		require.NoError(t, err)
		later, err := runtime.Start(ctx, b.Client, changed, "x")
		require.NoError(t, err)
		forkResult(t, changed, later.RunRef)
		tr.take()
		diff, err := run.RunRef.Diff(ctx, later.RunRef)
		require.NoError(t, err)
		require.True(t, diff.Graph)
		nodes := map[string]fabrictype.NodeDiff{}
		for _, n := range diff.Nodes {
			nodes[n.Name] = n
		}
		require.Equal(t, []string{"activity", "input", "upstreams", "result"}, nodes["all"].Differs)
		require.Nil(t, nodes["below"].B)
		require.Nil(t, nodes["more"].A)
		fork, err = run.Fork(ctx, runtime.ForkOptions{From: []string{"below"}})
		require.NoError(t, err)
		require.Equal(t, want, forkResult(t, def, fork))
		require.Equal(t, map[string]int{"step": 1, "end": 1}, tr.take())
		b.Settle(t)
	})
}

// Invalid forks are refused before anything is written.
func TestFork_RefusesInvalidOptions(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, tr := enginetest.Context(t), newTraced()
		def := tr.diamond(t)
		run, err := runtime.Start(ctx, b.Client, def, "x")
		require.NoError(t, err)
		_, err = run.Fork(ctx, runtime.ForkOptions{From: []string{"nowhere"}})
		require.ErrorIs(t, err, engine.ErrUnknownNode)
		_, err = run.Fork(ctx, runtime.ForkOptions{From: []string{"left"}, Results: map[string]any{"end": "a"}})
		require.ErrorContains(t, err, "node end runs again, since it depends on what does")
		_, err = run.Fork(ctx, runtime.ForkOptions{Input: func() {}})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		_, err = run.Fork(ctx, runtime.ForkOptions{}, runtime.WithKey("k", runtime.KeyPolicy{}))
		require.ErrorIs(t, err, runtime.ErrInvalid)
		_, err = b.Client.Run("diamond", "none").Fork(ctx, runtime.ForkOptions{})
		require.ErrorIs(t, err, engine.ErrRunNotFound)
		wide := flow.New[string, string]("wide")
		var last flow.Ref[string]
		for n := range 258 {
			last = flow.Node(wide, fmt.Sprint("n", n), tr.act, wide.Input())
		}
		flow.Return(wide, last)
		large, err := wide.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{tr.act, tr.join})
		many, err := runtime.Start(ctx, b.Client, large, "x")
		require.NoError(t, err)
		forkResult(t, large, many.RunRef)
		_, err = many.Fork(ctx, runtime.ForkOptions{From: []string{"n0"}})
		require.ErrorIs(t, err, runtime.ErrTooLarge)
		require.ErrorContains(t, err, "would keep 257 nodes, at most 256")
		fork, err := many.Fork(ctx, runtime.ForkOptions{From: []string{"n0", "n1"}})
		require.NoError(t, err)
		forkResult(t, large, fork)
		b.Settle(t)
	})
}

// The input of a fork is held against the schema with which the flow is published, if that is of the same graph.
func TestForkInputFitsTheSchema(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, tr := enginetest.Context(t), newTraced()
		def := tr.diamond(t)
		run, err := runtime.Start(ctx, b.Client, def, "x")
		require.NoError(t, err)
		foreign, err := runtime.NewClient(b.Engine)
		require.NoError(t, err)
		fork := func(id string) error {
			_, err := foreign.Run("diamond", run.ID()).Fork(ctx, runtime.ForkOptions{Input: json.RawMessage("  42")}, runtime.WithID(id))
			return err
		}
		require.NoError(t, fork("not published"))

		require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: def}))
		var faults *fabrictype.ValueError
		err = fork("published")
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorAs(t, err, &faults)
		require.Equal(t, `input of flow "diamond"`, faults.Subject)
		_, err = b.Client.Run("diamond", "published").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound)

		other := flow.New[string, string]("diamond")
		flow.Return(other, flow.Node(other, "in", tr.act, other.Input()))
		changed, err := other.Build()
		require.NoError(t, err)
		require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: changed}))
		require.NoError(t, fork("another graph"))
	})
}

// A client that has the definition of a flow refuses values of other types, before anything is written.
func TestForkValuesOfAnotherType(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		type order struct{ ID, Amount int }
		ctx := enginetest.Context(t)
		f := flow.New[order, order]("typed")
		same := activity.New("same", func(_ context.Context, o order) (order, error) { return o, nil })
		word := activity.New("word", func(context.Context, order) (string, error) { return "word", nil })
		count := activity.New("count", func(_ context.Context, word string) (int, error) { return len(word), nil })
		first := flow.Node(f, "first", same, f.Input())
		flow.Map(f, "lengths", count, flow.List(flow.Node(f, "word", word, first)))
		flow.Waitpoint[bool](f, "answer", flow.After(first))
		flow.Return(f, first)
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, order{ID: 1})
		require.NoError(t, err)
		foreign, err := runtime.NewClient(b.Engine)
		require.NoError(t, err)
		refused := map[string]runtime.ForkOptions{
			`input of flow "typed" does not decode into operatetest.order`: {Input: "x"},
			`unknown field "Kind"`:                                    {Input: map[string]any{"Kind": 1}},
			`result of node "first" does not decode`:                  {Results: map[string]any{"first": 7}},
			`result of node "word" does not decode into string`:       {Results: map[string]any{"word": order{}}},
			`result of node "lengths" does not decode into []int`:     {Results: map[string]any{"lengths": []string{"x"}}},
			`result of node "answer" does not decode into bool: json`: {Results: map[string]any{"answer": "yes"}},
		}
		for want, fork := range refused {
			for _, ref := range []*runtime.RunRef{run.RunRef, b.Client.Run("typed", run.ID())} {
				_, err = ref.Fork(ctx, fork, runtime.WithID("refused"))
				require.ErrorIs(t, err, runtime.ErrInvalid)
				require.ErrorContains(t, err, want)
			}
		}
		require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: def}))
		_, err = foreign.Run("typed", run.ID()).Fork(ctx, runtime.ForkOptions{Results: map[string]any{"first": 7}}, runtime.WithID("refused"))
		require.ErrorIs(t, err, runtime.ErrInvalid, "the schema is published")
		_, err = b.Client.Run("typed", "refused").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound)
		_, err = run.Fork(ctx, runtime.ForkOptions{Results: map[string]any{"first": order{ID: 2}}}, runtime.WithID("fits"))
		require.NoError(t, err)
	})
}

// Finally nodes of a run also run in its fork, where they clean up after the nodes that ran. The fork passes the
// interceptors of its client.
func TestForkRunsFinallyAgain(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		tr := newTraced()
		b.Worker(t, []activity.Handler{tr.act})
		f := flow.New[string, string]("tidied")
		first := flow.Node(f, "first", tr.act, f.Input())
		second := flow.Node(f, "second", tr.act, first)
		flow.Node(f, "release", tr.act, flow.Const("all"), flow.Finally(0))
		flow.Return(f, second)
		def := fixture.Build(t, f)
		var calls callList
		run, err := runtime.Start(ctx, b.Client.Use(calls.around("seen")), def, "in", runtime.WithID("R-1"))
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		tr.take()
		calls.take()
		_, err = run.Fork(ctx, runtime.ForkOptions{})
		require.ErrorIs(t, err, runtime.ErrNothingToRerun)
		fork, err := run.Fork(ctx, runtime.ForkOptions{From: []string{"second"}}, runtime.WithID("R-2"))
		require.NoError(t, err)
		require.Equal(t, []string{`seen start tidied/R-2 "in"`, "seen true"}, calls.take())
		again, err := runtime.Attach(fork, def)
		require.NoError(t, err)
		_, err = again.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"second": 1, "release": 1}, tr.take())
		b.Settle(t)
	})
}

// A branch that was skipped is skipped in a fork, and so is a join of it in time: only the nodes that run again differ.
func TestForkKeepsSkippedBranches(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		tr := newTraced()
		f := flow.New[string, string]("branches")
		scan := flow.Node(f, "scan", tr.act, f.Input())
		long := flow.When(scan, "long", func(s string) bool { return len(s) > 100 })
		deep := flow.Node(f, "deep", tr.act, scan, long)
		deeper := flow.Node(f, "deeper", tr.act, deep)
		quick := flow.Node(f, "quick", tr.act, scan, long.Not())
		either := flow.Node(f, "either", tr.act, flow.AnyOf(deeper, quick))
		flow.Return(f, flow.Node(f, "end", tr.act, either))
		def := fixture.Build(t, f)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, "in")
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		for _, from := range []string{"end", "either"} {
			fork, err := run.Fork(ctx, runtime.ForkOptions{From: []string{from}})
			require.NoError(t, err)
			forkResult(t, def, fork)
			diff, err := run.RunRef.Diff(ctx, fork)
			require.NoError(t, err)
			require.True(t, diff.Same(), "%+v", diff.Nodes)
		}
		b.Settle(t)
	})
}
