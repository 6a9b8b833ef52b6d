package childtest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// gated doubles numbers below a bound, and blocks on others until the gate is open or its context ends.
func gated(bound int, gate <-chan struct{}, waiting *atomic.Int64) *activity.Activity[int, int] {
	return activity.New("double", func(ctx context.Context, n int) (int, error) {
		if n >= bound {
			waiting.Add(1)
			select {
			case <-gate:
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		return 2 * n, nil
	})
}

// A map that waits holds no slot and no lease, Describe counts its items, and Items lists them.
func TestMapWhileItWaits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		var waiting atomic.Int64
		def := mapFlow(t, gated(3, gate, &waiting))
		b.Keeper(t)
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 2})
		run, err := runtime.Start(ctx, b.Client, def, 4, runtime.WithID("r"))
		require.NoError(t, err)
		// Both slots run items: the node itself has none.
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if n := d.Nodes[1]; waiting.Load() != 2 || n.State != fabrictype.NodeWaitingChildren || n.Child == nil || n.Child.Succeeded != 2 {
				return fmt.Sprintf("%d items that wait, a node that is %s", waiting.Load(), n.State)
			}
			return ""
		})
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		n := d.Nodes[1]
		require.Equal(t, "double", n.Activity)
		require.Empty(t, n.Worker)
		require.True(t, n.LeaseExpiresAt.IsZero())
		require.Equal(t, "waits for run mapping/r/double of flow mapping.double", n.Waiting.Sentence)
		id := n.Child.FlowID
		require.Equal(t, &fabrictype.ChildRun{Flow: "mapping.double", Run: "mapping/r/double", FlowID: id, State: fabrictype.RunRunning, Total: 4, Open: 2, Succeeded: 2}, n.Child)
		items := itemsOf(t, b, "mapping", "r", "double", 1)
		require.Len(t, items, 3)
		require.Equal(t, fabrictype.MapItem{Index: 1, Name: "item-1", State: fabrictype.NodeSucceeded, Attempts: 1, Result: &fabrictype.Value{Codec: "json", Size: 1, JSON: []byte("4")}}, items[0])
		require.Equal(t, fabrictype.MapItem{Index: 3, Name: "item-3", State: fabrictype.NodeActive, Attempts: 1}, items[2])
		inner, err := b.Client.Run(n.Child.Flow, n.Child.Run).Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, n.ExecutionID, inner.Parent)
		b.Check(t, invariant.AnyTime)
		close(gate)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []int{2, 4, 6, 8}, out)
		for _, err := range b.Client.Run("mapping", "r").Items(ctx, "list", 0) {
			require.ErrorIs(t, err, engine.ErrNoItems)
		}
		for _, err := range b.Client.Run("mapping", "r").Items(ctx, "nope", 0) {
			require.ErrorIs(t, err, engine.ErrUnknownNode)
		}
		b.Settle(t)
	})
}

func itemsOf(t *testing.T, b *enginetest.Bench, flowName, run, node string, from int) []fabrictype.MapItem {
	var items []fabrictype.MapItem
	for item, err := range b.Client.Run(flowName, run).Items(enginetest.Context(t), node, from) {
		require.NoError(t, err)
		items = append(items, item)
	}
	return items
}

// A cancel in the middle ends the items, those that run and those that wait; so does a cancel of the node alone.
func TestMapCancelled(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var waiting atomic.Int64
		def := mapFlow(t, gated(1, nil, &waiting))
		b.Keeper(t)
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 2})
		for _, cancel := range []func(id string) error{
			func(id string) error { return b.Client.Run("mapping", id).Cancel(ctx, "enough") },
			func(id string) error { return b.Client.Run("mapping", id).CancelNode(ctx, "double", "enough") },
		} {
			waiting.Store(0)
			run, err := runtime.Start(ctx, b.Client, def, 100)
			require.NoError(t, err)
			enginetest.Eventually(t, func() string {
				if waiting.Load() < 2 {
					return "two items at work"
				}
				return ""
			})
			require.NoError(t, cancel(run.ID()))
			_, err = run.Result(ctx)
			require.ErrorIs(t, err, runtime.ErrRunCancelled)
			b.Settle(t)
			require.EqualValues(t, 2, waiting.Load(), "no item starts after the cancel")
			d, err := b.Client.Run("mapping.double", "mapping/"+run.ID()+"/double").Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, "enough", d.CancelReason)
		}
	})
}

// A rerun runs again the items that have not succeeded, and no others; with other items, all of them.
func TestMapRerun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var ran, bad, offset atomic.Int64
		bad.Store(3)
		list := activity.New("list", func(_ context.Context, n int) ([]int, error) {
			items := make([]int, n)
			for i := range items {
				items[i] = i + 1 + int(offset.Load())
			}
			return items, nil
		})
		a := activity.New("double", func(_ context.Context, n int) (int, error) {
			ran.Add(1)
			if int64(n) == bad.Load() {
				return 0, activity.NonRetryable(errBad)
			}
			return 2 * n, nil
		})
		f := flow.New[int, int]("rerunning")
		doubled := flow.Map(f, "double", a, flow.Node(f, "list", list, f.Input()))
		flow.Return(f, flow.Node(f, "sum", sum(), doubled))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 1})
		run, err := runtime.Start(ctx, b.Client, def, 100)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		b.Settle(t)
		items := itemsOf(t, b, "rerunning", run.ID(), "double", 0)
		require.Len(t, items, 100)
		require.Equal(t, fabrictype.NodeFailed, items[2].State)
		require.Equal(t, "bad item", items[2].Reason)
		done := 0
		for _, item := range items {
			if item.State == fabrictype.NodeSucceeded {
				done++
			}
		}

		bad.Store(0)
		ran.Store(0)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 10100, out)
		require.EqualValues(t, 100-done, ran.Load(), "succeeded nodes do not run again")
		b.Settle(t)

		// The list is another one now: the run of the items before is replaced, and removed.
		ran.Store(0)
		offset.Store(1)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		out, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 10300, out)
		require.EqualValues(t, 100, ran.Load())
		require.Len(t, b.Settle(t).FlowIDs(), 2)
	})
}

// The option ItemsAtOnce bounds how many items run at a time.
func TestMapItemsAtOnce(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var running, most atomic.Int64
		a := activity.New("double", func(_ context.Context, n int) (int, error) {
			now := running.Add(1)
			defer running.Add(-1)
			for {
				before := most.Load()
				if now <= before || most.CompareAndSwap(before, now) {
					break
				}
			}
			time.Sleep(time.Millisecond) //nolint:forbidigo // the work of an item
			return 2 * n, nil
		})
		def := mapFlow(t, a, flow.ItemsAtOnce(3))
		b.Keeper(t)
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 16})
		run, err := runtime.Start(ctx, b.Client, def, 40)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Len(t, out, 40)
		require.LessOrEqual(t, most.Load(), int64(3))
		b.Settle(t)
	})
}

// Outcomes that exceed the size limit together fail the node after all items have ended. The error names the map, the
// size and the limit.
func TestMapOutcomesTooLarge(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		large := activity.New("large", func(_ context.Context, n int) (string, error) { return strings.Repeat("x", 400_000), nil })
		f := flow.New[int, []flow.ItemOutcome[string]]("large")
		flow.Return(f, flow.MapOutcomes(f, "map", large, flow.Node(f, "list", numbers(), f.Input())))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 4)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorContains(t, err, "too large: the results of the first 3 of 4 items of node map have 1200099 bytes, at most 1048576")
		b.Settle(t)
	})
}

// Many items, and how many calls of the engine they take.
func TestMapManyItems(t *testing.T) {
	t.Parallel()
	n := 1000
	if os.Getenv("FLOWFABRIC_SOAK") != "" {
		n = 10_000
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		f := flow.New[int, int]("many")
		flow.Return(f, flow.Node(f, "sum", sum(), flow.Map(f, "double", double(), flow.Node(f, "list", numbers(), f.Input()))))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 16})
		begun := time.Now()
		run, err := runtime.Start(ctx, b.Client, def, n)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, n*(n+1), out)
		t.Logf("%d items in %s", n, time.Since(begun))
		b.Settle(t)
	})
}

// Engines that have the contract's functions only refuse such flows before anything is written.
func TestContractModeRefuses(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		_, err := runtime.Start(ctx, b.Client, mapFlow(t, double()), 1)
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		require.ErrorContains(t, err, "node double: contract mode refuses maps")
		_, err = runtime.Start(ctx, b.Client, around(t, "outer", plusOne(t, "inner", double())), 1)
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		require.ErrorContains(t, err, "node inner: contract mode refuses sub-flows")
	})
}

// The item whose result makes the results of a map exceed the size limit fails, and with it the map. Items that have
// not started are cancelled. A rerun fails again.
func TestMapResultsTooLargeStopTheRest(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var ran atomic.Int64
		large := activity.New("large", func(context.Context, int) (string, error) {
			ran.Add(1)
			return strings.Repeat("x", 400_000), nil
		})
		inner := flow.New[int, string]("inner")
		flow.Return(inner, flow.Node(inner, "large", large, inner.Input()))
		item, err := inner.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, []activity.Handler{large, numbers()})
		for name, declare := range map[string]func(*flow.Builder[int, []string], flow.Ref[[]int]) flow.Ref[[]string]{
			"one-at-a-time": func(f *flow.Builder[int, []string], list flow.Ref[[]int]) flow.Ref[[]string] {
				return flow.Map(f, "map", large, list, flow.ItemsAtOnce(1))
			},
			"at-once": func(f *flow.Builder[int, []string], list flow.Ref[[]int]) flow.Ref[[]string] {
				return flow.Map(f, "map", large, list)
			},
			"flows": func(f *flow.Builder[int, []string], list flow.Ref[[]int]) flow.Ref[[]string] {
				return flow.MapFlow(f, "map", item, list, flow.ItemsAtOnce(1))
			},
		} {
			for _, items := range []int{8, 30} {
				f := flow.New[int, []string](name)
				flow.Return(f, declare(f, flow.Node(f, "list", numbers(), f.Input())))
				def, err := f.Build()
				require.NoError(t, err)
				run, err := runtime.Start(ctx, b.Client, def, items)
				require.NoError(t, err)
				for again := range 2 {
					_, err = run.Result(ctx)
					var failed *runtime.RunError
					require.ErrorAs(t, err, &failed)
					require.Equal(t, "map", failed.Node)
					require.Equal(t, engine.CategoryTooLarge, failed.Category)
					require.ErrorContains(t, err, "too large: with the result of this item, the results of ")
					if name != "at-once" { // of those, others complete after the map has failed
						require.ErrorContains(t, err, fmt.Sprintf("3 of %d items have 1200009 bytes, at most 1048576 are allowed", items))
						require.EqualValues(t, 3+again, ran.Load())
					}
					if again == 0 {
						require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
					}
				}
				ran.Store(0)
			}
		}
		b.Settle(t)
	})
}

// The result of an item that is run again counts once.
func TestMapResultsOfReruns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		large := activity.New("large", func(_ context.Context, n int) (string, error) {
			return strings.Repeat("x", 600_000/(1+1000*n)), nil
		})
		f := flow.New[int, []string]("large")
		flow.Return(f, flow.Map(f, "map", large, flow.Node(f, "list", numbers(), f.Input())))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 3)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		child := d.Nodes[slices.IndexFunc(d.Nodes, func(n fabrictype.Node) bool { return n.Name == "map" })].Child
		items := b.Client.Run(child.Flow, child.Run)
		for range 3 {
			require.NoError(t, items.Rerun(ctx, fabrictype.RerunFrom("item-0")))
			enginetest.Eventually(t, func() string {
				if d, err := items.Describe(ctx); err != nil || d.State != fabrictype.RunSucceeded {
					return fmt.Sprint(d, err)
				}
				return ""
			})
		}
		for range 3 {
			require.NoError(t, run.Rerun(ctx, fabrictype.RerunFrom("map")))
			_, err = run.Result(ctx)
			require.NoError(t, err)
		}
	})
}
