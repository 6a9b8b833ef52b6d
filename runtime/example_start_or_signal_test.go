package runtime_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Messages of one order come one by one: the first starts its run, the others join it.
func ExampleWithSignal() {
	count := activity.New("count", func(_ context.Context, items []activity.Signal[string]) (int, error) {
		return len(items), nil
	})
	f := flow.New[string, int]("gather-order")
	items := flow.WaitpointSignals[string](f, "items", activity.Signals("item"), activity.AtLeast(3))
	flow.Return(f, flow.Node(f, "count", count, items))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	var run *runtime.Run[int]
	for _, item := range []string{"cup", "plate", "cup"} {
		signal := runtime.WithSignal(runtime.WaitName{Node: "items"}, runtime.Signal{Name: "item", Payload: item})
		run, err = runtime.Start(ctx, local.Client(), def, "A-1", runtime.WithID("A-1"), signal)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(run.Existed(), run.SignalResult().Outcome)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// false accepted
	// true accepted
	// true resumed
	// 3 <nil>
}
