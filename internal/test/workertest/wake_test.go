package workertest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Of many idle workers only one claims announced work, and all get their share. The test has its own clock, which does
// not advance while any goroutine runs: no message is late.
func TestIdleWorkersTakeTurns(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	synctest.Test(t, func(t *testing.T) {
		const workers, tasks = 20, 200
		b := enginetest.New(t, testserver.Embedded)
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		all := make([]*runtime.Worker, workers)
		for i := range all {
			all[i] = enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{Concurrency: 2, NoKeeper: true})
			require.NoError(t, all[i].Register(a))
			b.Run(t, "worker", all[i].Run)
		}
		time.Sleep(7 * time.Second) //nolint:forbidigo // the workers find each other, and make the sweep of a worker's fifth second
		before := total(all)
		for i := range tasks {
			run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), i)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err)
			time.Sleep(33 * time.Millisecond) //nolint:forbidigo // tasks come one by one, at any time of the ring
		}
		after := total(all)
		require.EqualValues(t, tasks, after.Executions-before.Executions)
		require.Zero(t, after.EmptyClaims-before.EmptyClaims, "claims that leased nothing, of %d", after.Claims-before.Claims)
		idle := 0
		for _, w := range all {
			if w.Stats().Executions == 0 {
				idle++
			}
		}
		require.Less(t, idle, workers/2, "workers that got nothing")
		b.Settle(t)
	})
}

func total(workers []*runtime.Worker) fabrictype.WorkerStats {
	var sum fabrictype.WorkerStats
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
		root, sum := fixture.AddOne(), fixture.Adder()
		a := activity.New("meet", func(ctx context.Context, n int) (int, error) {
			meet <- struct{}{}
			select {
			case <-open:
			case <-ctx.Done():
			}
			return n + 1, nil
		})
		for range workers {
			b.MessageWorker(t, []activity.Handler{root, a, sum}, runtime.WorkerConfig{Concurrency: 1})
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
