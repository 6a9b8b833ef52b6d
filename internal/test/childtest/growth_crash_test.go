package childtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// growing is a flow that grows in each way, one after the other. Each plan is another one, by its number.
func growing(t testing.TB, planned *atomic.Int64) *flow.Definition[int, int] {
	t.Helper()
	type count struct{ Left, Sum int }
	add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	until := activity.New("until", func(_ context.Context, n int) (bool, error) { return n%10 == 3, nil })
	sum := activity.New("sum", func(_ context.Context, list []int) (int, error) {
		n := 0
		for _, v := range list {
			n += v
		}
		return n, nil
	})
	plan := activity.New("plan", func(_ context.Context, n int) (flow.Plan[int], error) {
		f := flow.New[int, int]("planned")
		last := flow.Node(f, "first", add, f.Input())
		number := planned.Add(1)
		for i := range number % 5 {
			flow.Node(f, fmt.Sprintf("more-%d", i), add, last)
		}
		flow.Return(f, last)
		def, err := f.Build()
		if err != nil {
			return flow.Plan[int]{}, activity.NonRetryable(err)
		}
		return flow.PlanOf(def, n)
	})
	again := activity.New("again", func(ctx context.Context, c count) (int, error) {
		v, err := activity.Step(ctx, "step", func(context.Context) (int, error) { return 1, nil })
		if err != nil {
			return 0, err
		}
		if c.Sum += v; c.Left > 0 {
			c.Left--
			return 0, activity.ContinueAsNew(c)
		}
		return c.Sum, activity.Sleep(ctx, "nap", time.Millisecond)
	})
	body := plusOne(t, "body", add)
	f := flow.New[int, int]("growing")
	looped := flow.Loop(f, "loop", body, until, f.Input(), 5)
	expanded := flow.Expand(f, "expand", plan, looped, flow.MayRun(add))
	rows := flow.MapFlow(f, "rows", body, flow.List(looped, expanded), flow.ItemsAtOnce(1))
	counted := flow.Node(f, "again", again, flow.Const(count{Left: 2}), flow.After(rows))
	flow.Return(f, flow.Node(f, "sum", sum, flow.List(looped, expanded, flow.Node(f, "rows-sum", sum, rows), counted)))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// A worker dies at any step of a loop, a plan, or a function that continues as new. Another worker continues with the
// stored plan, the current turn, and the carried state.
func TestCrashWhileGrowing(t *testing.T) {
	t.Parallel()
	crashes := []crash{
		{"ffx3_link_child", 1}, {"ffx3_await_child", 1}, {"ffx3_continue_as_new", 1}, {"ffx3_link_child", 3}, {"ffx3_submit", 3},
		{"ffx3_continue_as_new", 2}, {"ffx3_record_step", 1}, {"ffx3_record_step", 2}, {"ffx3_continue_as_new", 3},
		{"ffx3_continue_as_new", 4}, {"ffx3_suspend", 1},
	}
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		for _, at := range crashes {
			t.Run(fmt.Sprintf("%s %d", at.function, at.calls), func(t *testing.T) {
				t.Parallel() // most of it is waiting for leases to run out
				ctx := enginetest.Context(t)
				server := testserver.Shared(t, kind)
				p := proxy.Start(t, server.Addr())
				prefix := enginetest.NewPrefix()
				b := enginetest.Open(t, kind, server.URL(), prefix)
				far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), prefix)
				var planned atomic.Int64
				def := growing(t, &planned)
				stalled := make(chan struct{})
				p.Intercept(proxy.StallAfter(at.function, at.calls, stalled))
				b.Keeper(t)
				far.Worker(t, def.Handlers(), runtime.WorkerConfig{Lease: 2 * time.Second, Grace: -1})
				run, err := runtime.Start(ctx, b.Client, def, 0)
				require.NoError(t, err)
				select {
				case <-stalled:
				case <-ctx.Done():
					t.Fatal("the call never came")
				}
				b.Check(t, invariant.AnyTime)
				b.Worker(t, def.Handlers())
				out, err := run.Result(ctx)
				require.NoError(t, err)
				require.Equal(t, 3+4+(4+5)+3, out)
				require.LessOrEqual(t, planned.Load(), int64(2))
				turns, err := run.Turns(ctx, "loop")
				require.NoError(t, err)
				require.Len(t, turns, 3)
				p.Intercept(nil)
				p.Break()
				// The run, three turns, the plan, the items, and a run for each of them.
				require.Len(t, b.Settle(t).FlowIDs(), 1+3+1+1+2)
			})
		}
	})
}
