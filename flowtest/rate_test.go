package flowtest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// begun are the virtual times at which functions began.
type begun struct {
	mu   sync.Mutex
	list []time.Time
}

func (b *begun) add() (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, time.Now())
	return len(b.list) == 1
}

// mustBe fails unless functions began at these times after the first of them.
func (b *begun) mustBe(t *flowtest.T, want ...time.Duration) {
	t.Helper()
	if len(b.list) != len(want) {
		t.Fatalf("%d functions began, want %d: %v", len(b.list), len(want), b.list)
	}
	for i, at := range b.list {
		if after := at.Sub(b.list[0]); after != want[i] {
			t.Errorf("start %d: after %s, want %s", i, after, want[i])
		}
	}
}

// each is a flow that maps an activity over a list.
func each(tb testing.TB, a *activity.Activity[int, int]) *flow.Definition[[]int, []int] {
	tb.Helper()
	f := flow.New[[]int, []int]("each")
	flow.Return(f, flow.Map(f, "each", a, f.Input()))
	def, err := f.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return def
}

// On a virtual clock the windows of a limit are exact.
func TestExactWindows(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		var b begun
		a := activity.New("limited", func(_ context.Context, n int) (int, error) {
			b.add()
			return n, nil
		}, activity.Limit("vendor", activity.LimitConfig{AtMost: 2, Per: 10 * time.Second}))
		flowtest.Start(t, each(t, a), []int{1, 2, 3, 4, 5}).MustResult()
		b.mustBe(t, 0, 0, 10*time.Second, 10*time.Second, 20*time.Second)
	})
}

// They are exact, too, for executions that were admitted and waited for a slot.
func TestExactWindowsAfterBusySlots(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		var b begun
		a := activity.New("limited", func(ctx context.Context, n int) (int, error) {
			b.add()
			if n <= 3 { // until nine tenths of the second window are over
				select {
				case <-time.After(19 * time.Second):
				case <-ctx.Done():
				}
			}
			return n, ctx.Err()
		}, activity.Limit("vendor", activity.LimitConfig{AtMost: 2, Per: 10 * time.Second}))
		flowtest.Start(t, each(t, a), []int{1, 2, 3, 4, 5, 6}).MustResult()
		for i, at := range b.list[2:] {
			if span := at.Sub(b.list[i]); span < 10*time.Second {
				t.Errorf("three functions began within %s", span)
			}
		}
	}, flowtest.Worker(runtime.WorkerConfig{Concurrency: 3}))
}

// A function that begins again in place of a lost worker is another start.
func TestWindowAfterALostWorker(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		var b begun
		a := activity.New("limited", func(_ context.Context, n int) (int, error) {
			b.add()
			return n, nil
		}, activity.Limit("vendor", activity.LimitConfig{AtMost: 1, Per: time.Hour}))
		t.Inject(a, flowtest.Attempt(1), flowtest.LoseWorker())
		flowtest.Start(t, each(t, a), []int{1}).MustResult()
		b.mustBe(t, 0, time.Hour)
	})
}

// So is a function that begins again at once, since its signal had come before.
func TestWindowOfAWaitThatIsOver(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		var b begun
		a := activity.New("limited", func(ctx context.Context, n int) (int, error) {
			first := b.add()
			token, err := activity.OpenWaitpoint(ctx, "go", 24*time.Hour)
			if err != nil {
				return 0, err
			}
			if first {
				if _, err := t.Client().Signal(ctx, token, runtime.Signal{Name: "go", Payload: n}); err != nil {
					return 0, err
				}
			}
			return activity.Await[int](ctx, "go")
		}, activity.Limit("vendor", activity.LimitConfig{AtMost: 1, Per: time.Hour}))
		flowtest.Start(t, each(t, a), []int{1}).MustResult()
		b.mustBe(t, 0, time.Hour)
	})
}
