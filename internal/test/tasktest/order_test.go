package tasktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// An execution of the lowest priority runs after at most seven of a higher one, also when those come by hand-off.
func TestLowPriorityIsNotStarved(t *testing.T) {
	t.Parallel()
	for _, inRow := range []bool{false, true} {
		t.Run(fmt.Sprintf("in a row %t", inRow), func(t *testing.T) {
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				u := fixture.NewLineUp(t, b)
				one := u.L.Flow(t, "one", 1, false)
				u.Start(t, one, "", "low")
				enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 0) // the others are younger than the first one
				many := u.L.Flow(t, "many", 40, inRow, flow.Priority(9))
				u.Start(t, many, "", "high")
				u.Start(t, u.L.Flow(t, "middle", 1, false, flow.Priority(5)), "", "middle")
				ran := u.Continue(t, 42)
				require.LessOrEqual(t, fixture.IndexOf(ran, "low"), 8, "%v", ran)
				require.LessOrEqual(t, fixture.IndexOf(ran, "middle"), 41)
				require.Equal(t, "high", ran[0])
			}, runtime.OpenConfig{Partitions: 1})
		})
	}
}

// Without FairBy, a lane goes by priority, then by age.
func TestOrderByPriority(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		u := fixture.NewLineUp(t, b)
		for _, p := range []int{0, 3, 9000, 1} {
			u.Start(t, u.L.Flow(t, "p"+strconv.Itoa(p), 1, false, flow.Priority(p)), "", strconv.Itoa(p))
		}
		require.Equal(t, []string{"9000", "3", "1", "0"}, u.Continue(t, 4))
	}, runtime.OpenConfig{Partitions: 1})
}

// A change of priority reaches eligible executions and those that are not yet eligible. Finished runs and invalid
// priorities return different errors.
func TestSetPriority(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		u := fixture.NewLineUp(t, b)
		row, one := u.L.Flow(t, "row", 3, true), u.L.Flow(t, "one", 1, false)
		u.Start(t, one, "", "first")
		urgent := u.Start(t, row, "", "urgent")
		single := u.Start(t, one, "", "node")
		require.NoError(t, urgent.SetPriority(u.Ctx, 7))
		require.NoError(t, urgent.SetPriority(u.Ctx, 7), "again")
		require.NoError(t, single.SetNodePriority(u.Ctx, "n0", 8))
		require.ErrorIs(t, single.SetNodePriority(u.Ctx, "nobody", 8), engine.ErrUnknownNode)
		require.ErrorIs(t, single.SetNodePriority(u.Ctx, "", 8), engine.ErrUnknownNode)
		require.ErrorIs(t, urgent.SetPriority(u.Ctx, -1), runtime.ErrInvalid)
		require.ErrorIs(t, urgent.SetPriority(u.Ctx, 9001), runtime.ErrInvalid)
		require.ErrorIs(t, b.Client.Run("row", "no such run").SetPriority(u.Ctx, 1), engine.ErrRunNotFound)
		require.Equal(t, []string{"node", "urgent", "urgent", "urgent", "first"}, u.Continue(t, 5))
		require.ErrorIs(t, urgent.SetPriority(u.Ctx, 1), engine.ErrRunOver)
	}, runtime.OpenConfig{Partitions: 1})
}

// A new priority also changes the order in the queue of a limit, and reaches the started runs of maps and sub-flows.
func TestSetPriorityReachesFurther(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		l := fixture.NewLedger()
		entered, leave := make(chan string, 8), make(chan struct{})
		one := activity.New("one_at_a_time", func(ctx context.Context, j fixture.Job) (string, error) {
			entered <- j.Label
			select {
			case <-leave:
			case <-ctx.Done():
			}
			return l.Note(j.Label), nil
		}, activity.Limit("one", activity.LimitConfig{AtOnce: 1}))
		f := flow.New[fixture.Job, string]("limited")
		flow.Return(f, flow.Node(f, "only", one, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		outer := flow.New[fixture.Job, string]("outer")
		flow.Return(outer, flow.Sub(outer, "sub", def, outer.Input()))
		above, err := outer.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{one}, runtime.WorkerConfig{Concurrency: 4})
		b.Keeper(t)
		waiting := func(n int) {
			enginetest.Eventually(t, func() string {
				list, err := b.Client.Limits(ctx)
				require.NoError(t, err)
				if len(list) != 1 || list[0].Waiting != n {
					return fmt.Sprintf("%+v", list)
				}
				return ""
			})
		}
		first, err := runtime.Start(ctx, b.Client, def, fixture.Job{Tenant: "", Label: "first"})
		require.NoError(t, err)
		require.Equal(t, "first", <-entered)
		runs := []*runtime.Run[string]{first}
		for i, label := range []string{"second", "third"} {
			run, err := runtime.Start(ctx, b.Client, def, fixture.Job{Tenant: "", Label: label})
			require.NoError(t, err)
			runs = append(runs, run)
			waiting(i + 1)
		}
		inner, err := runtime.Start(ctx, b.Client, above, fixture.Job{Tenant: "", Label: "inner"})
		require.NoError(t, err)
		waiting(3)
		require.NoError(t, runs[2].SetPriority(ctx, 5))
		require.NoError(t, inner.SetPriority(ctx, 9))
		close(leave)
		for _, run := range append(runs, inner) {
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
		require.Equal(t, []string{"first", "inner", "third", "second"}, l.Ran())
		fixture.AtRest(ctx, t, b.Client)
		b.Settle(t)
	})
}

// However much one tenant has waiting, another one's node is at most one claim later for it.
func TestFairBetweenTenants(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const many = 600
		u := fixture.NewLineUp(t, b)
		fair := flow.FairBy("Tenant")
		u.Start(t, u.L.Flow(t, "many", many, false, fair, flow.Priority(100)), "a", "a")
		one := u.L.Flow(t, "one", 1, false, fair)
		u.Start(t, one, "b", "b")
		u.Start(t, one, "c", "c")
		b.Check(t, invariant.AnyTime)
		ran := u.Continue(t, many+2)
		require.Equal(t, []string{"a", "b", "c", "a"}, ran[:4])
	}, runtime.OpenConfig{Partitions: 1})
}

// It is the same with 100,000 nodes of one tenant, whose claims a single node of another one must not wait for.
func TestFairAtSize(t *testing.T) {
	t.Parallel()
	if os.Getenv("FLOWFABRIC_SOAK") == "" {
		t.Skip("takes minutes: FLOWFABRIC_SOAK=1")
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const runs, nodes, claims = 12, 8_400, 40
		u := fixture.NewLineUp(t, b)
		var cancel context.CancelFunc
		u.Ctx, cancel = context.WithTimeout(context.Background(), 20*time.Minute)
		defer cancel()
		fair := flow.FairBy("Tenant")
		begun := time.Now()
		many, one := u.L.Flow(t, "many", nodes, false, fair, flow.Priority(100)), u.L.Flow(t, "one", 1, false, fair)
		for range runs {
			u.Start(t, many, "a", "a")
		}
		submitted := time.Since(begun)
		u.Start(t, one, "b", "b")
		worker := b.Worker(t, []activity.Handler{u.L.Work}, runtime.WorkerConfig{Concurrency: 1})
		require.NoError(t, b.Client.Lane(activity.DefaultLane).Resume(u.Ctx))
		ranAtLeast := func(n int) {
			enginetest.Eventually(t, func() string {
				if ran := len(u.L.Ran()); ran < n {
					return fmt.Sprintf("%d of %d nodes ran", ran, n)
				}
				return ""
			})
		}
		ranAtLeast(4)
		require.Equal(t, "b", u.L.Ran()[1])
		// One that comes while they run has its turn at the next claim but for those that were under way.
		before := len(u.L.Ran())
		begun = time.Now()
		u.Start(t, one, "c", "c")
		after := len(u.L.Ran())
		ranAtLeast(after + claims)
		took := time.Since(begun)
		require.NoError(t, worker.Stop())
		at := fixture.IndexOf(u.L.Ran(), "c")
		require.GreaterOrEqual(t, at, before)
		require.LessOrEqual(t, at, after+2)
		t.Logf("%d nodes waited, submitted in %s; a later node of another tenant ran as number %d, it was there between number %d and %d; %d nodes in %s",
			runs*nodes, submitted, at, before, after, after-before+claims, took)
	}, runtime.OpenConfig{Partitions: 1})
}

// Tenants take turns, hand-offs count, and those without a key count as one tenant, also when they came first.
func TestFairnessKeysTakeTurns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		u := fixture.NewLineUp(t, b)
		u.Start(t, u.L.Flow(t, "before", 150, false), "", "none")
		u.Start(t, u.L.Flow(t, "row", 20, true, flow.FairBy("Tenant")), "a", "a")
		u.Start(t, u.L.Flow(t, "wide", 20, false, flow.FairBy("Tenant")), "b", "b")
		u.Start(t, u.L.Flow(t, "behind", 10, false), "", "none")
		ran := u.Continue(t, 200)
		counts := make(map[string]int)
		for _, label := range ran[:60] {
			counts[label]++
		}
		assert.InDelta(t, 20, counts["a"], 2, "%v", ran[:60])
		assert.InDelta(t, 20, counts["b"], 2, "%v", ran[:60])
		// Of each tenant, at most one node runs between two of another one as long as both wait.
		for i := 3; i < 50; i++ {
			assert.NotEqual(t, "b b", ran[i-1]+" "+ran[i], "at %d of %v", i, ran[:60])
		}
	}, runtime.OpenConfig{Partitions: 1})
}

// A key must be in the input, and a plain value.
func TestFairByKey(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		l := fixture.NewLedger()
		f := flow.New[map[string]string, string]("wrong", flow.FairBy("Customer"))
		flow.Return(f, flow.Node(f, "work", l.Work, flow.Const(fixture.Job{})))
		def, err := f.Build()
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, def, map[string]string{"Tenant": "a"})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, "Customer, which the input does not have")
		_, err = runtime.Start(ctx, b.Client, l.Flow(t, "empty", 1, false, flow.FairBy("Tenant")), fixture.Job{})
		require.ErrorIs(t, err, runtime.ErrInvalid)
	}, runtime.OpenConfig{Partitions: 1})
}

// Items of a map share as their run does, and take its changed priority.
func TestItemsShareAsTheirRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		list := activity.New("list", func(ctx context.Context, j fixture.Job) ([]int, error) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return []int{1, 2, 3}, nil
		})
		item := activity.New("item", func(_ context.Context, n int) (int, error) { return n, nil }, activity.Lane("items"))
		f := flow.New[fixture.Job, []int]("mapping", flow.FairBy("Tenant"))
		flow.Return(f, flow.Map(f, "each", item, flow.Node(f, "list", list, f.Input())))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, fixture.Job{Tenant: "a"})
		require.NoError(t, err)
		require.NoError(t, run.SetPriority(ctx, 6))
		close(gate)
		b.Keeper(t)
		b.Worker(t, []activity.Handler{list, item}, runtime.WorkerConfig{Lanes: []string{"items", "default"}})
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []int{1, 2, 3}, out)
		b.Settle(t)
		core, items := engine.ConnOf(b.Engine.Internal()), 0
		nodes, err := fixture.NodesOf(ctx, core)
		require.NoError(t, err)
		for _, id := range nodes {
			fields, err := fixture.NodeFields(ctx, core, id, "execution_kind", "fair_key", "priority")
			require.NoError(t, err)
			require.Equal(t, "a", fields["fair_key"], fields["execution_kind"])
			require.Equal(t, "6", fields["priority"], fields["execution_kind"])
			if fields["execution_kind"] == "item" {
				items++
			}
		}
		require.Equal(t, 3, items)
	}, runtime.OpenConfig{Partitions: 2})
}

// Whatever happens to nodes that wait, the queues of their keys follow.
func TestQueuesFollow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		l := fixture.NewLedger(activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 3}))
		rare := activity.New("rare", func(_ context.Context, j fixture.Job) (string, error) {
			if rand.IntN(3) == 0 {
				return "", fmt.Errorf("bad luck")
			}
			return j.Label, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2}))
		b.Keeper(t)
		b.Worker(t, []activity.Handler{l.Work}, runtime.WorkerConfig{Concurrency: 3})
		var runs []*runtime.Run[string]
		for i := range 40 {
			var opts []flow.Option
			if i%4 != 0 {
				opts = append(opts, flow.FairBy("Tenant"))
			}
			f := flow.New[fixture.Job, string]("f"+strconv.Itoa(i%8), append(opts, flow.Priority(i%3))...)
			first := flow.Node(f, "first", l.Work, f.Input())
			second := flow.Node(f, "second", rare, f.Input(), flow.After(first))
			flow.Return(f, flow.Node(f, "third", l.Work, f.Input(), flow.Always(second)))
			def, err := f.Build()
			require.NoError(t, err)
			run, err := runtime.Start(ctx, b.Client, def, fixture.Job{Tenant: "t" + strconv.Itoa(i%5), Label: "x"})
			require.NoError(t, err)
			runs = append(runs, run)
			switch i % 10 {
			case 3:
				require.NoError(t, run.SetPriority(ctx, 50))
			case 5:
				require.NoError(t, run.Pause(ctx, ""))
			case 7:
				require.NoError(t, run.Cancel(ctx, "no longer needed"))
			case 9:
				b.Check(t, invariant.AnyTime)
			}
		}
		b.Worker(t, []activity.Handler{l.Work, rare}, runtime.WorkerConfig{Concurrency: 3})
		for i, run := range runs {
			if i%10 == 5 {
				require.NoError(t, run.Resume(ctx))
			}
		}
		for _, run := range runs {
			_, _ = run.Result(ctx)
		}
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 2})
}
