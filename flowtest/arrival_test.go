package flowtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Throttles, debounce, queues and batches go by the virtual clock of the test.
func TestArrival(t *testing.T) {
	t.Parallel()
	var sizes []int
	batch := activity.NewBatch("batch", func(_ context.Context, items []int) ([]activity.ItemResult[int], error) {
		sizes = append(sizes, len(items))
		results := make([]activity.ItemResult[int], len(items))
		for i, n := range items {
			results[i].Value = n + 1
		}
		return results, nil
	}, activity.BatchWait(time.Minute))
	f := flow.New[int, int]("arrival")
	flow.Return(f, flow.Node(f, "add", batch, f.Input()))
	def, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	flowtest.Run(t, func(t *flowtest.T) {
		begun := time.Now()
		daily := runtime.WithThrottle("", runtime.Throttle{Starts: 2, Per: 24 * time.Hour})
		first, second := flowtest.Start(t, def, 1, daily), flowtest.Start(t, def, 2, daily)
		third := flowtest.Start(t, def, 3, daily)
		for n, run := range []*flowtest.TypedRun[int]{first, second, third} {
			if result := run.MustResult(); result != n+2 {
				t.Errorf("run %d: %d", n, result)
			}
		}
		if took := time.Since(begun); took < 24*time.Hour || took > 24*time.Hour+5*time.Minute {
			t.Errorf("the third run ended after %s", took)
		}
		if len(sizes) != 2 || sizes[0] != 2 || sizes[1] != 1 {
			t.Errorf("batches of %v", sizes)
		}
		queue := runtime.WithKey("k", runtime.KeyPolicy{WhenTaken: runtime.QueueRun})
		flowtest.Start(t, def, 4, queue)
		flowtest.Start(t, def, 5, queue).MustResult()
	})
}
