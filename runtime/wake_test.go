package runtime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Of many idle workers only few ask for what is announced, and all get their share.
func TestIdleWorkersTakeTurns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const workers, tasks = 20, 100
		ctx := enginetest.Context(t)
		a := addOne()
		all := make([]*runtime.Worker, workers)
		running, stop := context.WithCancel(ctx)
		done := make(chan error, workers)
		for i := range all {
			all[i] = enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{Concurrency: 2, NoKeeper: true})
			require.NoError(t, all[i].Register(a))
			go func() { done <- all[i].Run(running) }()
		}
		run := func(i int) {
			run, err := runtime.Start(ctx, b.Client, single(t, a), i)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err)
		}
		// The workers get to know each other.
		met := time.Now().Add(time.Second)
		for i := 0; time.Now().Before(met); i++ {
			run(i)
		}
		before := total(all)
		for i := range tasks {
			run(i)
		}
		after := total(all)
		useful, wasted := after.Executions-before.Executions, after.EmptyClaims-before.EmptyClaims
		t.Logf("%d executions, %d claims, %d of them wasted", useful, after.Claims-before.Claims, wasted)
		require.EqualValues(t, tasks, useful)
		require.Less(t, wasted, useful*workers/4, "most workers need not come")
		idle := 0
		for _, w := range all {
			if w.Stats().Executions == 0 {
				idle++
			}
		}
		require.Less(t, idle, workers/2, "workers that got nothing")
		stop()
		for range all {
			require.NoError(t, <-done)
		}
		b.Settle(t)
	})
}

func total(workers []*runtime.Worker) runtime.WorkerStats {
	var sum runtime.WorkerStats
	for _, w := range workers {
		s := w.Stats()
		sum.Claims += s.Claims
		sum.EmptyClaims += s.EmptyClaims
		sum.Executions += s.Executions
	}
	return sum
}

// A burst that one worker has no slots for reaches the others.
func TestWakeIsPassedOn(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const workers = 8
		ctx := enginetest.Context(t)
		meet := make(chan struct{}, workers)
		open := make(chan struct{})
		root, sum := addOne(), adder()
		a := activity.New("meet", func(ctx context.Context, n int) (int, error) {
			meet <- struct{}{}
			select {
			case <-open:
			case <-ctx.Done():
			}
			return n + 1, nil
		})
		for range workers {
			b.Worker(t, []activity.Handler{root, a, sum}, runtime.OnlyMessages(runtime.WorkerConfig{Concurrency: 1}))
		}
		f := flow.New[int, int]("barrier")
		first := flow.Node(f, "root", root, f.Input())
		refs := make([]flow.Ref[int], workers)
		for i := range refs {
			refs[i] = flow.Node(f, fmt.Sprint("meet-", i), a, first)
		}
		flow.Return(f, flow.Node(f, "sum", sum, flow.List(refs...)))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		for i := range workers {
			select {
			case <-meet:
			case <-ctx.Done():
				t.Fatalf("%d of %d workers came", i, workers)
			}
		}
		close(open)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		b.Settle(t)
	})
}
