package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// On the library of another FlowFabric engine, which stays as it is. A server's URL takes ?contract=15, too.
func ExampleContractConfig() {
	ctx := context.Background()
	def, err := weather()
	if err != nil {
		log.Fatal(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(),
		Open:       runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler), Contract: &runtime.ContractConfig{}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()
	run, err := runtime.Start(ctx, local.Client(), def, "Nairobi")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: NAIROBI: 21 °C, Oslo: 21 °C <nil>
}
