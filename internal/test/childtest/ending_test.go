package childtest

import (
	"context"
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
	goOn             chan struct{} // closed when drop may return

	mu    sync.Mutex
	order []string
}

func newCleanups() *cleanups {
	c := &cleanups{working: make(chan int, 100), dropping: make(chan int, 100), goOn: make(chan struct{})}
	c.work = activity.New("work", func(ctx context.Context, n int) (int, error) {
		c.working <- n
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}, activity.Retry(activity.NoRetry))
	c.drop = activity.New("drop", func(_ context.Context, n int) (int, error) {
		c.dropping <- n
		<-c.goOn
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

// outer runs inner by a node, and stops something in the end.
func (c *cleanups) outer(t testing.TB, name string, opts ...flow.Option) *flow.Definition[int, int] {
	f := flow.New[int, int](name, opts...)
	flow.Return(f, flow.Sub(f, "sub", around(t, "middle", c.inner(t)), f.Input()))
	flow.Node(f, "stop", c.stop, f.Input(), flow.Finally(time.Hour))
	return mustBuild(t, f)
}

// A run that is cancelled or expires, or whose node is cancelled, ends after the cleanup of its child runs, and so does
// its own cleanup.
func TestCleanupOfChildrenComesFirst(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for name, end := range map[string]func(ctx context.Context, run *runtime.RunRef) error{
			"cancel": func(ctx context.Context, run *runtime.RunRef) error { return run.Cancel(ctx, "enough") },
			"cancel-node": func(ctx context.Context, run *runtime.RunRef) error {
				return run.CancelNode(ctx, "sub", "enough")
			},
			"cancel-twice": func(ctx context.Context, run *runtime.RunRef) error {
				if err := run.CancelNode(ctx, "sub", "enough"); err != nil {
					return err
				}
				return run.Cancel(ctx, "more than enough")
			},
			"deadline": nil,
		} {
			ctx := enginetest.Context(t)
			c := newCleanups()
			worker := b.KeepingWorker(t, c.handlers(), runtime.WorkerConfig{Concurrency: 8})
			var run *runtime.Run[int]
			var err error
			if end != nil {
				run, err = runtime.Start(ctx, b.Client, c.outer(t, name), 1)
				require.NoError(t, err)
				<-c.working
				require.NoError(t, end(ctx, run.RunRef))
			} else {
				run = c.expire(t, ctx, b)
			}
			<-c.dropping
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			require.True(t, d.ClosedAt.IsZero(), name)
			require.Equal(t, fabrictype.NodeWaitingChildren, nodeNow(t, ctx, run.RunRef, "stop").State)
			require.Equal(t, fabrictype.NodeWaitingChildren, nodeNow(t, ctx, run.RunRef, "sub").State)
			close(c.goOn)
			_, err = run.Result(ctx)
			want := runtime.ErrRunCancelled
			if end == nil {
				want = runtime.ErrRunExpired
			}
			require.ErrorIs(t, err, want, name)
			require.Equal(t, []string{"drop", "stop"}, c.order, name)
			b.Settle(t)
			require.NoError(t, run.Purge(ctx))
			require.NoError(t, worker.Stop())
		}
	})
}

// expire starts runs until one has exceeded its deadline while its inner flow works.
func (c *cleanups) expire(t *testing.T, ctx context.Context, b *enginetest.Bench) *runtime.Run[int] {
	t.Helper()
	for within := time.Second; ; within *= 2 {
		run, err := runtime.Start(ctx, b.Client, c.outer(t, "deadline", flow.Deadline(within)), 1)
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = run.Result(ctx)
		}()
		select {
		case <-c.working:
			return run
		case <-ended:
			c.order = nil
		}
	}
}

// The runs of many items end before their map does; a join that needs no more of a sub-flow stops it.
func TestCleanupOfManyChildren(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const items = 20
		c := newCleanups()
		close(c.goOn)
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
