package runtime_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A start that is repeated after a deploy which gave an activity a timeout is the same run; one with another input is
// not.
func ExampleStart_optionsChanged() {
	price := activity.New("price", func(_ context.Context, items int) (int, error) { return 3 * items, nil })
	version := func(opts ...flow.NodeOption) *flow.Definition[int, int] {
		f := flow.New[int, int]("order")
		flow.Return(f, flow.Node(f, "price", price, f.Input(), opts...))
		def, err := f.Build()
		if err != nil {
			panic(err)
		}
		return def
	}
	ctx := context.Background()
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: []activity.Handler{price}, Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	before, after := version(), version(activity.StartToClose(time.Minute))
	for _, order := range []struct {
		def   *flow.Definition[int, int]
		items int
	}{{before, 2}, {after, 2}, {after, 5}} {
		run, err := runtime.Start(ctx, local.Client(), order.def, order.items, runtime.WithID("A-1"))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(run.Existed())
	}
	// Output:
	// false
	// true
	// start run A-1 of flow order: run id is taken by another run: it has another input
}
