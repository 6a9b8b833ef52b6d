package batching

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnyAlive(t *testing.T) {
	t.Parallel()
	one, endOne := context.WithCancel(t.Context())
	other, endOther := context.WithCancel(t.Context())
	itself := func(ctx context.Context) context.Context { return ctx }
	value := context.WithValue(one, t, 1) // ends together with one

	ctx, cancel := anyAlive([]context.Context{one, value, other, one}, itself)
	defer cancel()
	endless, cancelEndless := anyAlive([]context.Context{one, context.Background()}, itself)
	endOne()
	if <-one.Done(); ctx.Err() != nil {
		t.Error("the context ended although one that waits had not")
	}
	endOther()
	<-ctx.Done()
	if endless.Err() != nil {
		t.Error("the context ended although one that waits never does")
	}
	if cancelEndless(); endless.Err() == nil {
		t.Error("the call was made, and its context has not ended")
	}
}

// Runs that are started under one context are watched at the cost of one.
func BenchmarkAnyAlive(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	waiting := make([]context.Context, 16)
	for i := range waiting {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		waiting[i] = child
	}
	b.ReportAllocs()
	for b.Loop() {
		_, cancel := anyAlive(waiting, func(ctx context.Context) context.Context { return ctx })
		cancel()
	}
}

// batchBench has a batcher whose calls end when the test lets them.
type batchBench struct {
	Batcher[string, int, int]
	sent   chan []int // the requests of each call that begins
	answer chan struct{}
}

func newBatchBench(maxRequests, maxBytes, overflow int) *batchBench {
	b := &batchBench{sent: make(chan []int, 16), answer: make(chan struct{})}
	call := func(ctx context.Context, batch []int) []int {
		b.sent <- slices.Clone(batch)
		results := make([]int, len(batch))
		select {
		case <-b.answer:
			for i := range batch {
				results[i] = -batch[i]
			}
		case <-ctx.Done():
		}
		return results
	}
	b.Batcher = Batcher[string, int, int]{
		Single: func(ctx context.Context, _ string, one int) int { return call(ctx, []int{one})[0] },
		Multi:  func(ctx context.Context, _ string, batch []int) []int { return call(ctx, batch) },
		Size:   func(one *int) int { return *one }, MaxBytes: maxBytes, Overflow: overflow,
		MaxRequests: func(string) int { return maxRequests },
	}
	return b
}

type batchResult struct {
	res int
	err error
}

// start sends requests one after the other, each in a goroutine, and returns when all of them are under way or wait.
func (b *batchBench) start(ctx context.Context, requests ...int) (results []chan batchResult) {
	for _, one := range requests {
		result := make(chan batchResult, 1)
		go func() {
			res, err := b.Do(ctx, "key", one)
			result <- batchResult{res, err}
		}()
		synctest.Wait()
		results = append(results, result)
	}
	return results
}

// next is the call that has begun; nil when none has.
func (b *batchBench) next() []int {
	synctest.Wait()
	select {
	case batch := <-b.sent:
		return batch
	default:
		return nil
	}
}

func (b *batchBench) end() {
	b.answer <- struct{}{}
	synctest.Wait()
}

func (b *batchBench) requireIdle(t *testing.T) {
	t.Helper()
	require.Nil(t, b.next())
	require.Empty(t, b.lines)
}

// bothContexts runs a test with callers whose contexts can end, for whom a goroutine sends, and with others, who send
// themselves.
func bothContexts(t *testing.T, test func(*testing.T, context.Context)) {
	t.Parallel()
	t.Run("contexts that can end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, t.Context()) })
	})
	t.Run("contexts that cannot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, context.Background()) })
	})
}

// One call is in flight at a time; requests that arrive during it go with the next one, in their order, within its
// bounds.
func TestBatcherSendsOneCallAtATime(t *testing.T) {
	bothContexts(t, func(t *testing.T, ctx context.Context) {
		b := newBatchBench(3, 100, 0)
		results := b.start(ctx, 1, 2, 3, 4, 5, 101, 6, 102)
		for _, want := range [][]int{{1}, {2, 3, 4}, {5}, {101}, {6}, {102}} {
			require.Equal(t, want, b.next())
			require.Nil(t, b.next(), "a second call at the same time")
			b.end()
		}
		for i, want := range []int{1, 2, 3, 4, 5, 101, 6, 102} {
			require.Equal(t, batchResult{-want, nil}, <-results[i])
		}
		b.requireIdle(t)
	})
}

// Requests with other keys do not wait for each other.
func TestBatcherKeysAreIndependent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatchBench(3, 100, 0)
		go func() { _, _ = b.Do(t.Context(), "other", 1) }()
		require.Equal(t, []int{1}, b.next())
		b.start(t.Context(), 2)
		require.Equal(t, []int{2}, b.next())
		b.end()
		b.end()
		b.requireIdle(t)
	})
}

// A second call is sent in parallel to the one in flight as soon as enough requests wait, but a third call never is.
// When one of two calls ends, the waiting requests are sent in parallel to the other only if they are enough.
func TestBatcherOverflowSendsSecondCall(t *testing.T) {
	bothContexts(t, func(t *testing.T, ctx context.Context) {
		b := newBatchBench(16, 100, 3)
		b.start(ctx, 1)
		require.Equal(t, []int{1}, b.next())
		b.start(ctx, 2, 3)
		require.Nil(t, b.next())
		b.start(ctx, 4)
		require.Equal(t, []int{2, 3, 4}, b.next())
		b.start(ctx, 5, 6, 7, 8)
		require.Nil(t, b.next(), "a third call at the same time")
		b.end()
		require.Equal(t, []int{5, 6, 7, 8}, b.next())
		b.start(ctx, 9, 10)
		b.end()
		require.Nil(t, b.next(), "too few for a second call")
		b.end()
		require.Equal(t, []int{9, 10}, b.next())
		b.end()
		b.requireIdle(t)
	})
}

// While the server has other work, enough requests for a second call wait for the end of the first one.
func TestBatcherHoldsSecondCall(t *testing.T) {
	bothContexts(t, func(t *testing.T, ctx context.Context) {
		b := newBatchBench(16, 100, 2)
		holds := true
		b.Hold = func() bool { return holds }
		b.start(ctx, 1, 2, 3, 4)
		require.Equal(t, []int{1}, b.next())
		require.Nil(t, b.next(), "a second call though the server has work")
		b.end()
		require.Equal(t, []int{2, 3, 4}, b.next())
		holds = false
		b.start(ctx, 5, 6)
		require.Equal(t, []int{5, 6}, b.next())
		b.end()
		b.end()
		b.requireIdle(t)
	})
}

// Goroutines that are runnable when the first one sends share its call.
func TestBatcherGathersRunnableGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatchBench(16, 100, 0)
		first := &batchEntry[int, int]{ctx: t.Context(), req: 1}
		require.True(t, b.tryLead("key", first))
		b.start(t.Context(), 2, 3)
		require.Nil(t, b.next(), "they wait for the first")
		require.Len(t, b.gather("key", first, nil), 3)
	})
}

// The request of a caller that gives up is not sent if it still waits. If the caller was about to send a batch, the
// other requests of the batch are sent all the same.
func TestBatcherDropsCancelledRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatchBench(16, 100, 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("it takes too long")
		first := b.start(t.Context(), 1)
		gone := b.start(ctx, 2)
		rest := b.start(t.Context(), 3, 4)
		cancel(why)
		require.Equal(t, batchResult{0, why}, <-gone[0])
		require.Equal(t, []int{1}, b.next())
		b.end()
		require.Equal(t, []int{3, 4}, b.next())
		b.end()
		require.Equal(t, batchResult{-1, nil}, <-first[0])
		require.Equal(t, batchResult{-3, nil}, <-rest[0])
		require.Equal(t, batchResult{-4, nil}, <-rest[1])
		b.requireIdle(t)
	})
}

// A batch is sent as long as one of its callers waits, and no longer.
func TestBatcherCallEndsWithItsLastCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatchBench(16, 100, 0)
		one, endOne := context.WithCancel(t.Context())
		other, endOther := context.WithCancel(t.Context())
		b.start(t.Context(), 1)
		results := append(b.start(one, 2), b.start(other, 3)...)
		require.Equal(t, []int{1}, b.next())
		b.end()
		require.Equal(t, []int{2, 3}, b.next())
		endOne()
		require.Equal(t, batchResult{0, context.Canceled}, <-results[0])
		next := b.start(t.Context(), 4)
		require.Nil(t, b.next(), "the call continues for the other")
		endOther()
		require.Zero(t, (<-results[1]).res)
		require.Equal(t, []int{4}, b.next())
		b.end()
		require.Equal(t, batchResult{-4, nil}, <-next[0])
		b.requireIdle(t)
	})
}

// Passengers cause no second call, and go with the next one in addition to its other requests.
func TestBatcherPassengers(t *testing.T) {
	bothContexts(t, func(t *testing.T, ctx context.Context) {
		b := newBatchBench(2, 1<<20, 2)
		b.IsPassenger = func(one *int) bool { return *one > 100 }
		b.start(ctx, 1)
		require.Equal(t, []int{1}, b.next())
		results := b.start(ctx, 101, 2, 102)
		require.Nil(t, b.next())
		b.start(ctx, 3)
		require.Equal(t, []int{101, 2, 102, 3}, b.next(), "two requests justify a second call")
		b.start(ctx, 103, 104, 105)
		b.end()
		b.end()
		require.Equal(t, batchResult{-101, nil}, <-results[0])
		require.Equal(t, []int{103, 104}, b.next())
		b.end()
		require.Equal(t, []int{105}, b.next())
		b.end()
		b.requireIdle(t)
	})
}

// Each of many concurrent goroutines receives the result of its own request, also while other callers give up.
func TestBatcherUnderLoad(t *testing.T) {
	t.Parallel()
	b := &Batcher[int, int, int]{
		Single:      func(_ context.Context, _ int, one int) int { return -one },
		MaxRequests: func(int) int { return 8 },
		Overflow:    4,
		Multi: func(_ context.Context, _ int, batch []int) []int {
			results := make([]int, len(batch))
			for i, one := range batch {
				results[i] = -one
			}
			return results
		},
	}
	var running sync.WaitGroup
	for i := range 64 {
		running.Go(func() {
			for n := range 200 {
				ctx, cancel := t.Context(), func() {}
				if n%3 == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Microsecond)
				} else if n%3 == 1 {
					ctx = context.Background()
				}
				one := i*1000 + n + 1
				res, err := b.Do(ctx, i%2, one)
				if cancel(); err == nil && res != -one || err != nil && n%3 != 0 {
					t.Errorf("result of %d: %d, %v", one, res, err)
				}
			}
		})
	}
	running.Wait()
	if len(b.lines) != 0 {
		t.Error("calls without a waiting caller are in flight")
	}
}
