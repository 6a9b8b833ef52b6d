package childtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// cleanups are flows that work until they are stopped, and clean up then.
type cleanups struct {
	work, drop, stop *activity.Activity[int, int]
	working          chan int
	dropping         chan int
	breaks           chan struct{} // closed when work fails
	proceed          chan struct{} // closed when drop may return

	mu    sync.Mutex
	order []string
}

func newCleanups() *cleanups {
	c := &cleanups{working: make(chan int, 100), dropping: make(chan int, 100), breaks: make(chan struct{}), proceed: make(chan struct{})}
	c.work = activity.New("work", func(ctx context.Context, n int) (int, error) {
		c.working <- n
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-c.breaks:
			return 0, errBad
		}
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	c.drop = activity.New("drop", func(_ context.Context, n int) (int, error) {
		c.dropping <- n
		<-c.proceed
		c.note("drop")
		return n, nil
	})
	c.stop = activity.New("stop", func(_ context.Context, n int) (int, error) {
		c.note("stop")
		return n, nil
	})
	return c
}

func (c *cleanups) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order = append(c.order, what)
}

func (c *cleanups) handlers() []activity.Handler { return []activity.Handler{c.work, c.drop, c.stop} }

// inner works, and drops something in the end.
func (c *cleanups) inner(t testing.TB) *flow.Definition[int, int] {
	f := flow.New[int, int]("inner")
	flow.Return(f, flow.Node(f, "work", c.work, f.Input()))
	flow.Node(f, "drop", c.drop, f.Input(), flow.Finally(0))
	return mustBuild(t, f)
}

// shapes are the nodes that have child runs, all of them named sub, with the number of runs of inner below them.
func (c *cleanups) shapes(t testing.TB) map[string]shape {
	sub := func(f *flow.Builder[int, int], in *flow.Definition[int, int]) flow.Ref[int] {
		return flow.Sub(f, "sub", in, f.Input())
	}
	until := activity.New("until", func(context.Context, int) (bool, error) { return true, nil })
	loop := func(f *flow.Builder[int, int], in *flow.Definition[int, int]) flow.Ref[int] {
		return flow.Loop(f, "sub", in, until, f.Input(), 2)
	}
	plan := activity.New("plan", func(_ context.Context, n int) (flow.Plan[int], error) { return flow.PlanOf(c.inner(t), n) })
	expand := func(f *flow.Builder[int, int], _ *flow.Definition[int, int]) flow.Ref[int] {
		return flow.Expand(f, "sub", plan, f.Input(), flow.MayRun(c.work, c.drop))
	}
	sum := activity.New("sum", func(_ context.Context, list []int) (int, error) { return len(list), nil })
	items := func(f *flow.Builder[int, int], in *flow.Definition[int, int]) flow.Ref[int] {
		return flow.Node(f, "sum", sum, flow.MapFlow(f, "sub", in, flow.Const([]int{1, 2, 3})))
	}
	below := func(name string, of func(*flow.Builder[int, int], *flow.Definition[int, int]) flow.Ref[int],
		in *flow.Definition[int, int],
	) *flow.Definition[int, int] {
		f := flow.New[int, int](name)
		flow.Return(f, of(f, in))
		return mustBuild(t, f)
	}
	inner := c.inner(t)
	return map[string]shape{
		"sub":    {sub, below("middle", sub, inner), 1},
		"items":  {items, inner, 3},
		"loop":   {loop, inner, 1},
		"plan":   {expand, nil, 1},
		"nested": {items, below("turns", loop, below("plans", expand, nil)), 3},
	}
}

// shape is a node whose child runs have runs of inner, or are those.
type shape struct {
	node  func(*flow.Builder[int, int], *flow.Definition[int, int]) flow.Ref[int]
	runs  *flow.Definition[int, int]
	inner int
}

// outer has a node with child runs, and stops something in the end.
func (c *cleanups) outer(t testing.TB, name string, s shape, opts ...flow.Option) *flow.Definition[int, int] {
	f := flow.New[int, int](name, opts...)
	flow.Return(f, s.node(f, s.runs))
	flow.Node(f, "stop", c.stop, f.Input(), flow.Finally(time.Hour))
	return mustBuild(t, f)
}

// endings are the ways in which a run ends while its child runs work, with the error of its result. A nil function
// waits for the deadline of the run.
var endings = map[string]struct {
	end  func(t *testing.T, ctx context.Context, b *enginetest.Bench, c *cleanups, run *runtime.RunRef)
	want error // nil for a failure
}{
	"cancel": {func(t *testing.T, ctx context.Context, _ *enginetest.Bench, _ *cleanups, run *runtime.RunRef) {
		require.NoError(t, run.Cancel(ctx, "enough"))
	}, runtime.ErrRunCancelled},
	"cancel-node": {func(t *testing.T, ctx context.Context, _ *enginetest.Bench, _ *cleanups, run *runtime.RunRef) {
		require.NoError(t, run.CancelNode(ctx, "sub", "enough"))
	}, runtime.ErrRunCancelled},
	"cancel-twice": {func(t *testing.T, ctx context.Context, _ *enginetest.Bench, _ *cleanups, run *runtime.RunRef) {
		require.NoError(t, run.CancelNode(ctx, "sub", "enough"))
		require.NoError(t, run.Cancel(ctx, "more than enough"))
	}, runtime.ErrRunCancelled},
	"cancel-child": {func(t *testing.T, ctx context.Context, b *enginetest.Bench, _ *cleanups, run *runtime.RunRef) {
		child := nodeNow(t, ctx, run, "sub").Child
		require.NoError(t, b.Client.Run(child.Flow, child.Run).Cancel(ctx, "enough"))
	}, nil},
	"failure": {func(_ *testing.T, _ context.Context, _ *enginetest.Bench, c *cleanups, _ *runtime.RunRef) {
		close(c.breaks)
	}, nil},
	"deadline": {nil, runtime.ErrRunExpired},
}

// A run that is cancelled, fails or expires, or whose node or child run is cancelled, ends after the cleanup of its
// child runs, and so does its own cleanup. This holds for sub-flows, items, turns of loops and plans, and for their
// child runs.
func TestCleanupOfChildrenComesFirst(t *testing.T) {
	t.Parallel()
	for shapeName := range newCleanups().shapes(t) {
		t.Run(shapeName, func(t *testing.T) {
			t.Parallel()
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				for name := range endings {
					cleanUpFirst(t, b, name, shapeName)
				}
			})
		})
	}
}

func cleanUpFirst(t *testing.T, b *enginetest.Bench, name, shapeName string) {
	t.Helper()
	ctx, ending := enginetest.Context(t), endings[name]
	var c *cleanups
	var run *runtime.Run[int]
	var worker *enginetest.Running
	inner := newCleanups().shapes(t)[shapeName].inner
	if ending.end != nil {
		c = newCleanups()
		run, worker = c.begin(t, ctx, b, name, shapeName)
		require.True(t, c.allWork(inner, run), name)
		ending.end(t, ctx, b, c, run.RunRef)
	} else {
		for within := time.Second; ; within *= 2 {
			c = newCleanups()
			run, worker = c.begin(t, ctx, b, name, shapeName, flow.Deadline(within))
			if c.allWork(inner, run) {
				break
			}
			close(c.proceed) // not all of them have begun in time
			_, err := run.Result(ctx)
			require.ErrorIs(t, err, ending.want)
			require.NoError(t, worker.Stop())
		}
	}
	for range inner {
		<-c.dropping
	}
	d, err := run.Describe(ctx)
	require.NoError(t, err)
	require.True(t, d.ClosedAt.IsZero(), name)
	// A child run may clean up before the worker of its parent has reported that the node waits for it.
	for _, node := range []string{"stop", "sub"} {
		enginetest.Eventually(t, func() string {
			if now := nodeNow(t, ctx, run.RunRef, node); now.State != fabrictype.NodeWaitingChildren {
				return name + ": node " + node + " is " + string(now.State)
			}
			return ""
		})
	}
	close(c.proceed)
	_, err = run.Result(ctx)
	if ending.want == nil {
		require.Equal(t, fabrictype.NodeFailed, nodeNow(t, ctx, run.RunRef, "sub").State, name)
		_, failed := errors.AsType[*runtime.RunError](err)
		require.True(t, failed, "%s: %v", name, err)
	} else {
		require.ErrorIs(t, err, ending.want, name)
	}
	require.Equal(t, append(slices.Repeat([]string{"drop"}, inner), "stop"), c.order, name)
	b.Settle(t)
	require.NoError(t, run.Purge(ctx))
	require.NoError(t, worker.Stop())
}

// begin starts a run of outer with a worker.
func (c *cleanups) begin(t *testing.T, ctx context.Context, b *enginetest.Bench, name, shapeName string, opts ...flow.Option) (
	*runtime.Run[int], *enginetest.Running,
) {
	t.Helper()
	def := c.outer(t, name, c.shapes(t)[shapeName], opts...)
	worker := b.KeepingWorker(t, append(def.Handlers(), c.handlers()...), runtime.WorkerConfig{Concurrency: 8})
	run, err := runtime.Start(ctx, b.Client, def, 1)
	require.NoError(t, err)
	return run, worker
}

// allWork waits until as many functions work, and reports false when the run ends or cleans up before.
func (c *cleanups) allWork(functions int, run *runtime.Run[int]) bool {
	over := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer close(over)
		_, _ = run.Result(ctx)
	}()
	for range functions {
		select {
		case <-c.working:
		case <-c.dropping:
			return false
		case <-over:
			return false
		}
	}
	return true
}

// The runs of many items end before their map does; a join that needs no more of a sub-flow stops it.
func TestCleanupOfManyChildren(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const items = 20
		c := newCleanups()
		close(c.proceed)
		gate := make(chan struct{})
		pass := activity.New("pass", func(context.Context, int) (int, error) {
			<-gate
			return 7, nil
		})
		b.KeepingWorker(t, append(c.handlers(), pass), runtime.WorkerConfig{Concurrency: items})
		f := flow.New[[]int, []int]("many")
		flow.Return(f, flow.MapFlow(f, "each", c.inner(t), f.Input()))
		flow.Node(f, "stop", c.stop, flow.Const(0), flow.Finally(time.Hour))
		run, err := runtime.Start(ctx, b.Client, mustBuild(t, f), make([]int, items))
		require.NoError(t, err)
		for range items {
			<-c.working
		}
		require.NoError(t, run.Cancel(ctx, "enough"))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Len(t, c.order, items+1)
		require.Equal(t, items, slices.Index(c.order, "stop"))

		c.order = nil
		g := flow.New[int, int]("race")
		quick := flow.Node(g, "quick", pass, g.Input())
		flow.Return(g, flow.Node(g, "first", c.stop, flow.AnyOf(flow.Sub(g, "sub", c.inner(t), g.Input()), quick)))
		raced, err := runtime.Start(ctx, b.Client, mustBuild(t, g), 1)
		require.NoError(t, err)
		<-c.working
		close(gate)
		out, err := raced.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, out)
		require.Contains(t, c.order, "drop")
		require.Equal(t, fabrictype.NodeCancelled, nodeNow(t, ctx, raced.RunRef, "sub").State)
		b.Settle(t)
	})
}
