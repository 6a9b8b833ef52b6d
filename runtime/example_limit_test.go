package runtime_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// limited starts the given number of runs of an activity with a limit.
func limited(ctx context.Context, call *activity.Activity[int, int], runs int) (*runtime.Local, []*runtime.Run[int], error) {
	f := flow.New[int, int]("limited")
	flow.Return(f, flow.Node(f, "call", call, f.Input()))
	def, err := f.Build()
	if err != nil {
		return nil, nil, err
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{URL: "embedded:", Activities: []activity.Handler{call}})
	if err != nil {
		return nil, nil, err
	}
	started := make([]*runtime.Run[int], runs)
	for i := range runs {
		if started[i], err = runtime.Start(ctx, local.Client(), def, i); err != nil {
			return local, nil, err
		}
	}
	return local, started, nil
}

// At most two functions of the limit run at once, in all workers together.
func ExampleClient_Limits_atOnce() {
	ctx := context.Background()
	var running, most atomic.Int64
	call := activity.New("call", func(_ context.Context, n int) (int, error) {
		if now := running.Add(1); now > most.Load() {
			most.Store(now)
		}
		defer running.Add(-1)
		return n, nil
	}, activity.Limit("api", activity.LimitConfig{AtOnce: 2}))
	local, runs, err := limited(ctx, call, 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	for _, run := range runs {
		if _, err := run.Result(ctx); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("never more than two:", most.Load() <= 2)
	// Output: never more than two: true
}

// A rate: at most two functions of the limit start in an hour. The third run waits.
func ExampleClient_Limits_rate() {
	ctx := context.Background()
	call := activity.New("call", func(_ context.Context, n int) (int, error) { return n, nil },
		activity.Limit("api", activity.LimitConfig{AtMost: 2, Per: time.Hour}))
	local, _, err := limited(ctx, call, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	for range time.Tick(10 * time.Millisecond) {
		limits, err := local.Client().Limits(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		if len(limits) == 1 && limits[0].Waiting == 1 {
			fmt.Printf("%s: %d have started, %d waits\n", limits[0].Name, limits[0].Started, limits[0].Waiting)
			return
		}
	}
	// Output: api: 2 have started, 1 waits
}
