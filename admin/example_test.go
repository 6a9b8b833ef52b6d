package admin_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// An execution outside of flows, as any FlowFabric worker would run it.
func Example() {
	ctx := context.Background()
	engine, err := runtime.Open(ctx, "embedded:", runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	desk, err := admin.New(engine)
	if err != nil {
		log.Fatal(err)
	}

	id, _, err := desk.CreateExecution(ctx, admin.ExecutionSpec{Kind: "render", Tags: map[string]string{"team.name": "video"}})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range desk.Executions(ctx, admin.ExecutionQuery{States: []fabrictype.NodeState{fabrictype.NodeWaiting}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Kind, "is", e.State)
	}
	if _, err := desk.CancelExecution(ctx, id, "not needed any more"); err != nil {
		log.Fatal(err)
	}
	state, err := desk.ExecutionState(ctx, id)
	fmt.Println("now it is", state, err)
	// Output:
	// render is waiting
	// now it is cancelled <nil>
}

// A keeper task run on request: an index that disagrees with the records is repaired.
func ExampleClient_RunKeeperTask() {
	ctx := context.Background()
	engine, err := runtime.Open(ctx, "embedded:", runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	client, err := admin.New(engine)
	if err != nil {
		log.Fatal(err)
	}
	report, err := client.RunKeeperTask(ctx, "index_reconciliation", runtime.KeeperConfig{})
	fmt.Println(report.Partitions, report.Done, report.Repaired, err)
	// Output: 8 0 map[] <nil>
}
