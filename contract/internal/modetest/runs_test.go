package modetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestContractChain(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		fixture.StartWorkerPool(t, b, a)
		def := fixture.ChainOf(t, a, 10)
		for i := range 5 {
			begun := time.Now()
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			started := time.Now()
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, i+10, out)
			require.False(t, run.Existed())
			if i == 4 {
				t.Logf("submitted in %s, ran in %s", started.Sub(begun), time.Since(started))
			}
		}
		s := b.Settle(t)
		require.Greater(t, s.Keys(), 100)
	})
}

func TestContractFanOut(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a, sum := fixture.AddOne(), fixture.Adder()
		fixture.StartWorkerPool(t, b, a, sum)
		for _, width := range []int{3, 300} {
			run, err := runtime.Start(ctx, b.Client, fixture.Wide(t, a, sum, width), 1)
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 3*width, out)
		}
		b.Settle(t)
	})
}

func TestContractStartAgain(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		def := fixture.ChainOf(t, a, 3)
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("again"))
		require.NoError(t, err)
		require.False(t, run.Existed())
		run, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithID("again"))
		require.NoError(t, err)
		require.True(t, run.Existed())
		_, err = runtime.Start(ctx, b.Client, def, 2, runtime.WithID("again"))
		require.ErrorIs(t, err, engine.ErrRunConflict)
		_, err = runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 4), 1, runtime.WithID("again"))
		require.ErrorIs(t, err, engine.ErrRunConflict)
		fixture.StartWorkerPool(t, b, a)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 4, out)
		b.Settle(t)
	})
}

func TestContractRetriesAndFailure(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		attempts := make(chan int, 10)
		flaky := activity.New("add", func(ctx context.Context, n int) (int, error) {
			info, _ := activity.Info(ctx)
			attempts <- info.Attempt
			if n == 0 && info.Attempt < 3 || n < 0 {
				return 0, errors.New("not yet")
			}
			return n + 1, nil
		}, activity.Retry(activity.RetryPolicy{First: 5 * time.Millisecond, Max: 20 * time.Millisecond, Attempts: 3}))
		fixture.StartWorkerPool(t, b, flaky)
		def := fixture.ChainOf(t, flaky, 3)
		run, err := runtime.Start(ctx, b.Client, def, 0)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, out)
		require.Equal(t, []int{1, 2, 3}, []int{<-attempts, <-attempts, <-attempts})

		run, err = runtime.Start(ctx, b.Client, def, -5)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.Equal(t, "n0", fixture.Failure(t, err).Node)
		require.Equal(t, "not yet", fixture.Failure(t, err).Reason)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunFailed, d.State)
		require.Equal(t, fabrictype.NodeSkipped, d.Nodes[2].State)
		require.Equal(t, 3, d.Nodes[0].Attempts)
		b.Settle(t)
	})
}

func TestContractCancel(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		begun, causes := make(chan struct{}, 1), make(chan error, 1)
		a := activity.New("add", func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return 0, ctx.Err()
		})
		fixture.StartWorkerPool(t, b, a)
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 3), 1)
		require.NoError(t, err)
		<-begun
		require.NoError(t, run.Cancel(ctx, "no more"))
		require.ErrorIs(t, <-causes, runtime.ErrCancelled)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Equal(t, "no more", fixture.Failure(t, err).Reason)
		require.NoError(t, run.Cancel(ctx, "again"))
		b.Settle(t)
	})
}

// A watch that sees the end of a run and its last events in one millisecond omits no event.
func TestContractWatchToTheEnd(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	b := enginetest.WithStoppedClock(t, runtime.OpenConfig{Backend: contract.Backend(contract.Config{})})
	ctx := enginetest.Context(t)
	a := fixture.AddOne()
	run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 2), 1)
	require.NoError(t, err)
	fixture.StartWorkerPool(t, b, a)
	_, err = run.Result(ctx)
	require.NoError(t, err)
	var last fabrictype.EventKind
	for e, err := range run.Watch(ctx, "") {
		require.NoError(t, err)
		last = e.Kind
	}
	require.Equal(t, fabrictype.EventRunSucceeded, last)
}

func TestContractDescribeWatchList(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		def := fixture.ChainOf(t, a, 3)
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("seen"))
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunRunning, d.State)
		require.Equal(t, []string{"n0", "n1", "n2"}, []string{d.Nodes[0].Name, d.Nodes[1].Name, d.Nodes[2].Name})
		require.Contains(t, d.Nodes[1].Waiting.Sentence, "n0")
		require.Equal(t, waitreason.Upstreams, d.Nodes[1].Waiting.Reason)
		require.Equal(t, waitreason.Worker, d.Nodes[0].Waiting.Reason)
		fixture.StartWorkerPool(t, b, a)
		var kinds []string
		for e, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
			kinds = append(kinds, string(e.Kind)+" "+e.Node)
		}
		require.Equal(t, []string{
			"flow_submitted ", "started n0", "success n0", "started n1", "success n1", "started n2", "success n2", "flow_success ",
		}, kinds)
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Flow: "chain"}, "", 10)
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.Equal(t, "seen", page.Items[0].Run)
		require.Equal(t, fabrictype.RunSucceeded, page.Items[0].State)
		require.ErrorIs(t, run.Cancel(ctx, "late"), engine.ErrRunOver)
	})
}

// Of the eligible executions of one partition, a worker takes the one with the highest priority first.
func TestContractPriorities(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var mu sync.Mutex
		var order []int
		a := activity.New("note", func(_ context.Context, priority int) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, priority)
			return priority, nil
		})
		sum := activity.New("sum", func(_ context.Context, in []int) (int, error) { return len(in), nil })
		f := flow.New[int, int]("priorities")
		var refs []flow.Ref[int]
		for _, p := range []int{0, 5, 9000, 2} {
			refs = append(refs, flow.Node(f, fmt.Sprintf("p%d", p), a, flow.Const(p), activity.Priority(p)))
		}
		flow.Return(f, flow.Node(f, "sum", sum, flow.List(refs...)))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		// All of them may run before the worker comes.
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			for _, n := range d.Nodes {
				if n.Name != "sum" && n.State != fabrictype.NodeWaiting {
					return n.Name + " is " + string(n.State)
				}
			}
			return ""
		})
		b.Worker(t, []activity.Handler{a, sum}, runtime.WorkerConfig{Concurrency: 1})
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []int{9000, 5, 2, 0}, order)
	})
}
