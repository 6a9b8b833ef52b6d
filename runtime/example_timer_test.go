package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// An order is shipped two days later, unless the timer is skipped.
func ExampleRunRef_SkipTimer() {
	ctx := context.Background()
	ship := activity.New("ship", func(_ context.Context, order string) (string, error) { return order + " is on its way", nil })
	f := flow.New[string, string]("orders")
	coolOff := flow.Sleep(f, "cool-off", 48*time.Hour)
	flow.Return(f, flow.Node(f, "ship", ship, f.Input(), flow.After(coolOff)))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()
	run, err := runtime.Start(ctx, local.Client(), def, "4711")
	if err != nil {
		log.Fatal(err)
	}
	d, err := run.Describe(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Nodes[0].Kind, d.Nodes[0].State, time.Until(d.Nodes[0].SleepsUntil) > 47*time.Hour)
	fmt.Println(local.Client().As("ann").Run("orders", run.ID()).SkipTimer(ctx, "cool-off"))
	fmt.Println(run.Result(ctx))
	// Output:
	// timer suspended true
	// <nil>
	// 4711 is on its way <nil>
}
