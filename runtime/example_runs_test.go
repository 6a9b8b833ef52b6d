package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The runs of one customer that have succeeded, the newest first.
func ExampleClient_Runs() {
	ctx := context.Background()
	def, err := weather()
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
	for _, city := range []string{"Lima", "Bern"} {
		run, err := runtime.Start(ctx, local.Client(), def, city, runtime.WithID(city), runtime.WithTag("customer.id", city))
		if err != nil {
			log.Fatal(err)
		}
		if _, err := run.Result(ctx); err != nil {
			log.Fatal(err)
		}
	}
	query := runtime.RunQuery{
		Flow: "weather", States: []fabrictype.RunState{fabrictype.RunSucceeded}, Tags: map[string]string{"customer.id": "Lima"},
	}
	for run, err := range local.Client().Runs(ctx, query) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(run.Flow, run.Run, run.State, run.Nodes.All, "nodes")
	}
	// Output: weather Lima succeeded 4 nodes
}
