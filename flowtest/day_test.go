package flowtest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// dayEnds is how long the wait of a day's flow lasts.
const dayEnds = 20 * time.Hour

// day is a flow of a day: retries for some hours, then a wait that times out.
func day(tb testing.TB) *flow.Definition[int, int] {
	var tries atomic.Int32
	work := activity.New("day.work", func(_ context.Context, n int) (int, error) {
		if tries.Add(1) < 5 {
			return 0, errors.New("not yet")
		}
		return n, nil
	}, activity.Retry(activity.RetryPolicy{Attempts: 8, First: 10 * time.Minute, Max: time.Hour}))
	f := flow.New[int, int]("day")
	worked := flow.Node(f, "work", work, f.Input())
	flow.Waitpoint[string](f, "answer", flow.After(worked), activity.Timeout(dayEnds, activity.ResumeOnTimeout))
	flow.Return(f, worked)
	def, err := f.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return def
}

// live runs the flow of a day and a schedule at the same time, from one midnight to the next.
func live(t *flowtest.T, work, tick *flow.Definition[int, int]) {
	t.Serve(tick)
	_, err := runtime.Schedule(context.Background(), t.Client(), "ticks", tick, 1,
		runtime.ScheduleConfig{Every: 8 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	run := flowtest.Start(t, work, 7)
	run.MustResult()
	t.Advance(time.Until(begun.Add(24 * time.Hour)))
}

// tick is the flow of a schedule.
func tick(tb testing.TB) *flow.Definition[int, int] {
	f := flow.New[int, int]("tick")
	flow.Return(f, flow.Node(f, "tick", activity.New("day.tick",
		func(_ context.Context, n int) (int, error) { return n, nil }), f.Input()))
	def, err := f.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return def
}

// maxDayCalls bounds the calls of a day in which something is due a dozen times.
const maxDayCalls = 120

// realClock returns a function that returns the time outside of bubbles, also within one.
func realClock(t *testing.T) func() time.Time {
	ask, tell := make(chan struct{}), make(chan time.Time)
	go func() {
		for range ask {
			tell <- time.Now()
		}
	}()
	t.Cleanup(func() { close(ask) })
	return func() time.Time {
		ask <- struct{}{}
		return <-tell
	}
}

// Nothing polls when nothing is due: a day costs as many calls as there is something to do. The log shows how much real
// time it takes.
func TestDayCostsFewCalls(t *testing.T) {
	t.Parallel()
	now := realClock(t)
	flowtest.Run(t, func(t *flowtest.T) {
		work, tick := day(t), tick(t)
		t.Advance(0) // the keeper has read all partitions once
		before, begun := t.Commands(), now()
		live(t, work, tick)
		took, after := now().Sub(begun), t.Commands()
		calls := after["fcall"] - before["fcall"]
		t.Logf("%d calls in %s; all commands: %v", calls, took, after)
		if calls > maxDayCalls {
			t.Errorf("a day costs %d calls, want at most %d", calls, maxDayCalls)
		}
	})
}
