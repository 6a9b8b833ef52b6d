package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// The reasons why the nodes of a run do not run yet, and the remedies.
func ExampleRunRef_Describe() {
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
	if err := local.Client().Lane("default").Pause(ctx, "maintenance"); err != nil {
		log.Fatal(err)
	}
	run, err := runtime.Start(ctx, local.Client(), def, "Lima")
	if err != nil {
		log.Fatal(err)
	}
	d, err := run.Describe(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range d.Nodes {
		fmt.Printf("%s: %s: %s\n", n.Name, n.Waiting.Reason, n.Waiting)
	}
	// Output:
	// here: lane_paused: lane default is paused: maintenance; resume lane default with flowfabric lane resume or LaneRef.Resume
	// there: lane_paused: lane default is paused: maintenance; resume lane default with flowfabric lane resume or LaneRef.Resume
	// loud: upstreams: waits for here
	// report: upstreams: waits for loud, there
}
