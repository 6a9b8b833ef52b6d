package flowtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// month is how long the runs of these tests wait.
const month = 30 * 24 * time.Hour

// maxIdleCommands bounds the commands of a month in which one thing waits: the commands of its beginning and its end,
// and a few of the worker that comes to rest.
const maxIdleCommands = 2000

var same = activity.New("idle.same", func(_ context.Context, n int) (int, error) { return n, nil })

// idleFlow builds a flow.
func idleFlow(tb testing.TB, name string, build func(*flow.Builder[int, int])) *flow.Definition[int, int] {
	f := flow.New[int, int](name)
	build(f)
	def, err := f.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return def
}

// sleeps is a flow that waits for a month and returns its input.
func sleeps(tb testing.TB) *flow.Definition[int, int] {
	return idleFlow(tb, "idle-sleeps", func(f *flow.Builder[int, int]) {
		slept := flow.Sleep(f, "sleep", month)
		flow.Return(f, flow.Node(f, "n", same, f.Input(), flow.After(slept)))
	})
}

// idleFlows are flows that wait for a month, each in another way.
func idleFlows(tb testing.TB) map[string]*flow.Definition[int, int] {
	inner := sleeps(tb)
	list := activity.New("idle.list", func(_ context.Context, n int) ([]int, error) { return []int{n, n, n}, nil })
	sum := activity.New("idle.sum", func(_ context.Context, list []int) (int, error) { return list[0], nil })
	enough := activity.New("idle.enough", func(_ context.Context, n int) (bool, error) { return true, nil })
	nap := activity.New("idle.nap", func(ctx context.Context, n int) (int, error) {
		return n, activity.Sleep(ctx, "nap", month)
	})
	await := activity.New("idle.await", func(ctx context.Context, n int) (int, error) {
		_, err := activity.Await[int](ctx, "never", activity.Timeout(month, activity.ResumeOnTimeout))
		if _, suspended := activitytest.Suspended(err); suspended {
			return 0, err
		}
		return n, nil
	})
	late := activity.New("idle.late", func(ctx context.Context, n int) (int, error) {
		if info, _ := activity.Info(ctx); info.Attempt == 1 {
			return 0, activity.RetryAfter(errors.New("not yet"), month)
		}
		return n, nil
	})
	expand := activity.New("idle.expand", func(context.Context, int) (flow.Plan[int], error) {
		return flow.PlanOf(inner, 7)
	})
	return map[string]*flow.Definition[int, int]{
		"sleep": inner,
		"waitpoint": idleFlow(tb, "idle-waitpoint", func(f *flow.Builder[int, int]) {
			w := flow.Waitpoint[int](f, "w", activity.Timeout(month, activity.ResumeOnTimeout))
			flow.Return(f, flow.Node(f, "n", same, f.Input(), flow.After(w)))
		}),
		"sub": idleFlow(tb, "idle-sub", func(f *flow.Builder[int, int]) {
			flow.Return(f, flow.Sub(f, "n", inner, f.Input()))
		}),
		"map": idleFlow(tb, "idle-map", func(f *flow.Builder[int, int]) {
			all := flow.MapFlow(f, "map", inner, flow.Node(f, "list", list, f.Input()))
			flow.Return(f, flow.Node(f, "n", sum, all))
		}),
		"loop": idleFlow(tb, "idle-loop", func(f *flow.Builder[int, int]) {
			flow.Return(f, flow.Loop(f, "n", inner, enough, f.Input(), 2))
		}),
		"expand": idleFlow(tb, "idle-expand", func(f *flow.Builder[int, int]) {
			flow.Return(f, flow.Expand(f, "n", expand, f.Input(), flow.MayRun(same)))
		}),
		"activity sleep": idleFlow(tb, "idle-nap", func(f *flow.Builder[int, int]) {
			flow.Return(f, flow.Node(f, "n", nap, f.Input()))
		}),
		"activity await": idleFlow(tb, "idle-await", func(f *flow.Builder[int, int]) {
			flow.Return(f, flow.Node(f, "n", await, f.Input()))
		}),
		"retry": idleFlow(tb, "idle-retry", func(f *flow.Builder[int, int]) {
			flow.Return(f, flow.Node(f, "n", late, f.Input()))
		}),
	}
}

// idleAssertions wait for the end of such a run.
var idleAssertions = map[string]func(*flowtest.TypedRun[int]){
	"MustResult":  func(run *flowtest.TypedRun[int]) { run.MustResult() },
	"MustSucceed": func(run *flowtest.TypedRun[int]) { run.MustSucceed() },
	"Succeeded":   func(run *flowtest.TypedRun[int]) { run.Node("n").Succeeded() },
}

// A month in which nothing is due costs a number of commands that does not depend on its length, whatever waits and
// whichever assertion waits for it.
func TestIdleMonthCostsNothing(t *testing.T) {
	t.Parallel()
	for name, def := range idleFlows(t) {
		for assertion, wait := range idleAssertions {
			t.Run(name+"/"+assertion, func(t *testing.T) {
				t.Parallel()
				now := realClock(t)
				flowtest.Run(t, func(t *flowtest.T) {
					before, begun := t.Commands(), now()
					wait(flowtest.Start(t, def, 7))
					checkIdle(t, before, now().Sub(begun))
				})
			})
		}
	}
}

// checkIdle fails the test if more commands were executed since before than a few.
func checkIdle(t *flowtest.T, before map[string]int, took time.Duration) {
	t.Helper()
	all, most := 0, ""
	after := t.Commands()
	for name, n := range after {
		if n -= before[name]; n > 0 {
			all += n
			if most == "" || n > after[most]-before[most] {
				most = name
			}
		}
	}
	t.Logf("%d commands in %s, most of them %s", all, took, most)
	if all > maxIdleCommands {
		t.Errorf("a month costs %d commands, want at most %d; most of them %s", all, maxIdleCommands, most)
	}
}

// A wait for an operator, for another run of its key, for a permit of a limit or for its start costs nothing either,
// nor do callers that follow the runs.
func TestIdleMonth_OfOtherWaits(t *testing.T) {
	t.Parallel()
	def := sleeps(t)
	ctx := context.Background()
	limited := activity.New("idle.limited", func(ctx context.Context, n int) (int, error) {
		return n, activity.Sleep(ctx, "nap", month)
	}, activity.Limit("idle", activity.LimitConfig{AtOnce: 1}))
	holds := idleFlow(t, "idle-limited", func(f *flow.Builder[int, int]) {
		flow.Return(f, flow.Node(f, "n", limited, f.Input()))
	})
	cases := map[string]func(*flowtest.T){
		"key": func(t *flowtest.T) {
			queue := runtime.WithKey("k", runtime.KeyPolicy{WhenTaken: runtime.QueueRun})
			flowtest.Start(t, def, 1, queue)
			flowtest.Start(t, def, 2, queue)
		},
		"limit": func(t *flowtest.T) {
			flowtest.Start(t, holds, 1).Node("n").Is(fabrictype.NodeSuspended)
			flowtest.Start(t, holds, 2)
		},
		"paused run": func(t *flowtest.T) {
			run := flowtest.Start(t, def, 1, runtime.StartAt(time.Now().Add(time.Hour)))
			if err := run.Pause(ctx, "later"); err != nil {
				t.Fatal(err)
			}
		},
		"start": func(t *flowtest.T) { flowtest.Start(t, def, 1, runtime.StartAt(time.Now().Add(2*month))) },
		"followers": func(t *flowtest.T) {
			run := flowtest.Start(t, def, 1)
			go func() {
				for range run.Watch(ctx, "") { // until the engine is closed
				}
			}()
			go func() {
				for range run.Logs(ctx, "n", runtime.LogQuery{Follow: true}) { // as above
				}
			}()
		},
		"schedule": func(t *flowtest.T) {
			t.Serve(def)
			_, err := runtime.Schedule(ctx, t.Client(), "s", def, 1, runtime.ScheduleConfig{
				Every: 25 * 24 * time.Hour, Overlap: fabrictype.OverlapQueue,
			})
			if err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, begin := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := realClock(t)
			flowtest.Run(t, func(t *flowtest.T) {
				t.Advance(0)
				before, begun := t.Commands(), now()
				begin(t)
				t.Advance(month - time.Hour)
				checkIdle(t, before, now().Sub(begun))
			})
		})
	}
}
