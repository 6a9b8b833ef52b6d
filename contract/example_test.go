package contract_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// On the library of another FlowFabric engine, which stays as it is.
func ExampleBackend() {
	ctx := context.Background()
	double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	f := flow.New[int, int]("twice")
	flow.Return(f, flow.Node(f, "again", double, flow.Node(f, "once", double, f.Input())))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		URL: "embedded:?contract=15", // or valkey://localhost:6379?contract=15
		Open: runtime.OpenConfig{
			Backend: contract.Backend(contract.Config{}),
			Logger:  slog.New(slog.DiscardHandler),
		},
		Activities: def.Handlers(),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()
	run, err := runtime.Start(ctx, local.Client(), def, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: 12 <nil>
}
