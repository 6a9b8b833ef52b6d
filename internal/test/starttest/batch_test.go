package starttest

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
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

// batchFlow is a flow of one node with a batch activity.
func batchFlow(t *testing.T, a *activity.Activity[int, int]) *flow.Definition[int, int] {
	t.Helper()
	f := flow.New[int, int]("batched")
	flow.Return(f, flow.Node(f, "item", a, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func startItems(t *testing.T, b *enginetest.Bench, def *flow.Definition[int, int], count int) []*runtime.Run[int] {
	t.Helper()
	items := make([]runtime.NewRun[int], count)
	for i := range items {
		items[i].Input = i
	}
	started, err := runtime.StartMany(enginetest.Context(t), b.Client, def, items)
	require.NoError(t, err)
	runs := make([]*runtime.Run[int], count)
	for i, s := range started {
		require.NoError(t, s.Err)
		runs[i] = s.Run
	}
	return runs
}

// Executions of several runs come to one call of the function, and each gets its own result; one that fails does so by
// itself and is retried.
func TestBatch(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var mu sync.Mutex
		var sizes []int
		tries := make(map[int]int)
		a := activity.NewBatch("square", func(ctx context.Context, items []int) ([]activity.ItemResult[int], error) {
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(items))
			if err := activity.Heartbeat(ctx); err != nil {
				return nil, err
			}
			results := make([]activity.ItemResult[int], len(items))
			for i, n := range items {
				if tries[n]++; n == 3 && tries[n] == 1 {
					results[i].Err = errors.New("three is odd")
				}
				if n == 5 {
					results[i].Err = activity.NonRetryable(errors.New("five is out"))
				}
				results[i].Value = n * n
			}
			return results, nil
		}, activity.BatchSize(8), activity.BatchWait(time.Minute), activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2, Factor: 1}))
		def := batchFlow(t, a)
		runs := startItems(t, b, def, 8)
		b.Keeper(t)
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 16})
		enginetest.Eventually(t, func() string {
			mu.Lock()
			defer mu.Unlock()
			if tries[3] < 1 {
				return "no call"
			}
			return ""
		})
		// The retry of one gathers with seven others.
		more := startItems(t, b, def, 7)
		for i, run := range runs {
			result, err := run.Result(ctx)
			if i == 5 {
				require.ErrorIs(t, err, runtime.ErrRunFailed)
				require.ErrorContains(t, err, "five is out")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, i*i, result)
		}
		for _, run := range more {
			_, _ = run.Result(ctx)
		}
		require.Equal(t, []int{8, 8}, sizes)
		b.Settle(t)
	})
}

// An error of the whole batch fails each of its items.
func TestBatchFailsWhole(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		for text, fn := range map[string]func(context.Context, []int) ([]activity.ItemResult[int], error){
			"the service is down": func(context.Context, []int) ([]activity.ItemResult[int], error) {
				return nil, errors.New("the service is down")
			},
			"returned 1 results for 3 items": func(context.Context, []int) ([]activity.ItemResult[int], error) {
				return make([]activity.ItemResult[int], 1), nil
			},
			"panic: boom":                         func(context.Context, []int) ([]activity.ItemResult[int], error) { panic("boom") },
			"the function ended its goroutine (r": func(context.Context, []int) ([]activity.ItemResult[int], error) { goruntime.Goexit(); return nil, nil },
		} {
			a := activity.NewBatch("fails", fn, activity.BatchSize(3), activity.BatchWait(time.Minute),
				activity.Retry(activity.RetryPolicy{Attempts: 1}))
			runs := startItems(t, b, batchFlow(t, a), 3)
			worker := b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 4})
			for _, run := range runs {
				_, err := run.Result(ctx)
				require.ErrorContains(t, err, text)
			}
			require.NoError(t, worker.Stop())
		}
		b.Settle(t)
	})
}

// An item whose run is cancelled leaves the others alone, before the call and in it; when all are cancelled, the
// context of the function ends.
func TestBatchCancel(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		called, proceed := make(chan []int, 4), make(chan struct{})
		a := activity.NewBatch("slow", func(ctx context.Context, items []int) ([]activity.ItemResult[int], error) {
			called <- items
			select {
			case <-proceed:
			case <-ctx.Done():
				called <- nil
				return nil, context.Cause(ctx)
			}
			return make([]activity.ItemResult[int], len(items)), nil
		}, activity.BatchSize(3), activity.BatchWait(time.Minute))
		def := batchFlow(t, a)
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 8})
		runs := startItems(t, b, def, 2)
		for _, run := range runs {
			enginetest.Eventually(t, func() string {
				d, err := run.Describe(ctx)
				if err != nil || d.Nodes[0].State != fabrictype.NodeActive {
					return fmt.Sprint(d.Nodes[0].State, err)
				}
				return ""
			})
		}
		cancel := func(run *runtime.Run[int]) {
			require.NoError(t, run.Cancel(ctx, "not wanted"))
			_, err := run.Result(ctx)
			require.ErrorIs(t, err, runtime.ErrRunCancelled)
		}
		cancel(runs[0])
		rest := startItems(t, b, def, 3)
		items := <-called
		require.Len(t, items, 3)
		cancel(runs[1])
		close(proceed)
		enginetest.Eventually(t, func() string { // of those that came into the batch
			for _, run := range rest {
				if d, err := run.Describe(ctx); err == nil && d.State == fabrictype.RunSucceeded {
					return ""
				}
			}
			return "no other item of the batch has ended"
		})
		for _, run := range rest {
			if d, err := run.Describe(ctx); err == nil && d.State == fabrictype.RunRunning {
				require.NoError(t, run.Cancel(ctx, "the end"))
			}
		}
		b.Settle(t)
	})
}

// When the executions of all items are cancelled, the context of the function ends, and its worker waits for it.
func TestBatchAllCancelled(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		called, told := make(chan struct{}), make(chan error, 1)
		a := activity.NewBatch("slow", func(ctx context.Context, items []int) ([]activity.ItemResult[int], error) {
			close(called)
			<-ctx.Done()
			told <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		}, activity.BatchSize(2), activity.BatchWait(time.Minute))
		worker := b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 8})
		runs := startItems(t, b, batchFlow(t, a), 2)
		<-called
		for _, run := range runs {
			require.NoError(t, run.Cancel(ctx, "not wanted"))
		}
		require.ErrorIs(t, <-told, runtime.ErrCancelled)
		require.NoError(t, worker.Stop())
		b.Settle(t)
	})
}

// A worker that stops does not wait for further items: it calls the function for those that it has gathered.
func TestBatchOfAStoppingWorker(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		sizes := make(chan int, 9)
		a := activity.NewBatch("gathers", func(_ context.Context, items []int) ([]activity.ItemResult[int], error) {
			sizes <- len(items)
			return make([]activity.ItemResult[int], len(items)), nil
		}, activity.BatchSize(3), activity.BatchWait(time.Minute))
		b.Keeper(t)
		runs := startItems(t, b, batchFlow(t, a), 1)
		// The stop of the worker may come before the reply of its claim. The worker releases the item then.
		for len(sizes) == 0 {
			// Its grace is longer than the test, so that nothing but the stop ends the waiting.
			worker := b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Grace: time.Hour})
			enginetest.Eventually(t, func() string {
				d, err := runs[0].Describe(ctx)
				if err != nil || d.Nodes[0].State != fabrictype.NodeActive {
					return fmt.Sprint("not claimed yet: ", err)
				}
				return ""
			})
			require.NoError(t, worker.Stop())
		}
		require.Equal(t, 1, <-sizes)
		_, err := runs[0].Result(ctx)
		require.NoError(t, err)
	})
}
