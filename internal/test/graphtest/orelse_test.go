package graphtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// prices are the inputs of a sum.
type prices struct {
	Of  listing `json:"of"`
	Big int     `json:"big"`
	Low int     `json:"low"`
}

var (
	priceSum = activity.New("orelse.sum", func(_ context.Context, p prices) (string, error) {
		return fmt.Sprintf("%d: %d %d", p.Of.Size, p.Big, p.Low), nil
	})
	twice = activity.New("orelse.twice", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	one   = activity.New("orelse.one", func(context.Context, listing) (int, error) { return 1, nil })
	say   = activity.New("orelse.say", func(_ context.Context, n int) (string, error) { return fmt.Sprint(n), nil })
)

// priced is a flow with a node after both branches of a condition: one of two nodes, and one of one.
func priced(t *testing.T, first *activity.Activity[listing, int]) *flow.Definition[listing, string] {
	t.Helper()
	f := flow.New[listing, string]("priced")
	scan := flow.Node(f, "scan", scanSize, f.Input())
	large := flow.When(scan, "large", isLarge)
	big := flow.Node(f, "bigger", twice, flow.Node(f, "big", first, scan, large))
	low := flow.Node(f, "low", one, scan, large.Not())
	flow.Return(f, flow.Node(f, "sum", priceSum, flow.Struct[prices](
		flow.Field("of", scan), flow.Field("big", flow.OrElse(big, -1)), flow.Field("low", flow.OrElse(low, -2)))))
	return fixture.Build(t, f)
}

func TestOrElseOfBothBranches(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		def := priced(t, one)
		b.Worker(t, def.Handlers())
		for size, want := range map[int]string{200: "200: 2 -2", 2: "2: -1 1"} {
			result, d := runToSuccess(t, b, def, listing{Size: size})
			require.Equal(t, want, result)
			skipped := map[int]string{200: "low", 2: "bigger"}[size]
			require.Equal(t, fabrictype.NodeSkipped, fixture.Node(t, d, skipped).State)
		}
		b.Settle(t)
	})
}

// A single input that may be missing: the node gets the result, or the constant.
func TestOrElseAlone(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		f := flow.New[listing, string]("alone")
		large := flow.When(f.Input(), "large", isLarge)
		wide := flow.When(f.Input(), "wide", func(l listing) bool { return l.Size > 1000 })
		outer := flow.Node(f, "outer", one, f.Input(), large)
		inner := flow.Node(f, "inner", twice, outer, wide)
		flow.Return(f, flow.Node(f, "end", say, flow.OrElse(inner, 7)))
		def := fixture.Build(t, f)
		b.Worker(t, def.Handlers())
		for size, want := range map[int]string{2000: "2", 200: "7", 2: "7"} {
			result, _ := runToSuccess(t, b, def, listing{Size: size})
			require.Equal(t, want, result, size)
		}
		b.Settle(t)
	})
}

// A sub-flow that succeeds without a result is skipped as by a condition.
func TestOrElseOfAHollowSubFlow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		inner := flow.New[listing, int]("inner")
		flow.Return(inner, flow.Node(inner, "one", one, inner.Input(), flow.When(inner.Input(), "large", isLarge)))
		f := flow.New[listing, string]("hollow")
		sub := flow.Sub(f, "sub", fixture.Build(t, inner), f.Input())
		flow.Return(f, flow.Node(f, "end", say, flow.OrElse(sub, 7)))
		def := fixture.Build(t, f)
		b.KeepingWorker(t, def.Handlers())
		for size, want := range map[int]string{200: "1", 2: "7"} {
			result, _ := runToSuccess(t, b, def, listing{Size: size})
			require.Equal(t, want, result)
		}
		b.Settle(t)
	})
}

// A failure of the branch, directly or further up, skips the node: the constant does not hide it. So does the failure of
// a join whose other upstream was skipped for a condition. A rerun makes up for it.
func TestOrElseAfterAFailure(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		var failing atomic.Bool
		fails := activity.New("orelse.fails", func(context.Context, listing) (int, error) {
			if failing.Load() {
				return 0, activity.NonRetryable(errors.New("set to fail"))
			}
			return 5, nil
		})
		f := flow.New[listing, string]("failing")
		large := flow.When(f.Input(), "large", isLarge)
		first := flow.Node(f, "first", fails, f.Input(), large)
		second := flow.Node(f, "second", twice, first)
		low := flow.Node(f, "low", one, f.Input(), large.Not())
		joined := flow.Node(f, "joined", twice, flow.AnyOf(first, low))
		flow.Node(f, "direct", say, flow.OrElse(first, 7))
		flow.Node(f, "behind", say, flow.OrElse(second, 7))
		flow.Return(f, flow.Node(f, "joins", say, flow.OrElse(joined, 7)))
		def := fixture.Build(t, f)
		b.Worker(t, def.Handlers())
		ctx := enginetest.Context(t)
		failing.Store(true)
		run, err := runtime.Start(ctx, b.Client, def, listing{Size: 200})
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorContains(t, err, "set to fail")
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		for _, name := range []string{"direct", "behind", "joins"} {
			require.Equal(t, fabrictype.NodeSkipped, fixture.Node(t, d, name).State, name)
		}
		failing.Store(false)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		result, d := successOf(t, run)
		require.Equal(t, "10", result)
		require.Equal(t, fabrictype.NodeSucceeded, fixture.Node(t, d, "behind").State)
		result, _ = runToSuccess(t, b, def, listing{})
		require.Equal(t, "2", result)
		b.Settle(t)
	})
}

// A rerun of the node keeps the constant of a branch that was skipped before; a rerun of the condition decides anew. Forks
// keep both.
func TestOrElseAfterRerunAndFork(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		var big atomic.Bool
		f := flow.New[listing, string]("again")
		large := flow.When(f.Input(), "large", func(listing) bool { return big.Load() })
		branch := flow.Node(f, "branch", twice, flow.Node(f, "begin", one, f.Input(), large))
		flow.Return(f, flow.Node(f, "end", passText, flow.Node(f, "told", say, flow.OrElse(branch, 7))))
		def := fixture.Build(t, f)
		b.Worker(t, def.Handlers())
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, def, listing{})
		require.NoError(t, err)
		result, _ := successOf(t, run)
		require.Equal(t, "7", result)
		for _, step := range []struct {
			from string
			big  bool
			want string
		}{{"told", true, "7"}, {"large", true, "2"}, {"told", false, "2"}, {"large", false, "7"}, {"end", true, "7"}} {
			big.Store(step.big)
			require.NoError(t, run.Rerun(ctx, fabrictype.RerunFrom(step.from)))
			result, _ = successOf(t, run)
			require.Equal(t, step.want, result, step)
			d, err := run.Describe(ctx, runtime.DescribeOptions{Values: true})
			require.NoError(t, err)
			require.Equal(t, step.want, string(fixture.Node(t, d, "told").Input.JSON), "the input as it is shown")
			fork, err := run.Fork(ctx, runtime.ForkOptions{From: []string{"told"}})
			require.NoError(t, err)
			forked, err := runtime.Attach(fork, def)
			require.NoError(t, err)
			result, _ = successOf(t, forked)
			require.Equal(t, step.want, result, step)
		}
		b.Settle(t)
	})
}
