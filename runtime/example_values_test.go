package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// The values and attempts of a run, without its Go types.
func ExampleRunRef_DescribeNode() {
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
	run, err := runtime.Start(ctx, local.Client(), def, "Lima", runtime.WithID("monday"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := run.Result(ctx); err != nil {
		log.Fatal(err)
	}
	ref := local.Client().Run("weather", "monday")
	d, err := ref.Describe(ctx, runtime.DescribeOptions{Values: true, ValueBytes: 1024})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("run: %s -> %s\n", d.Input.JSON, d.Result.JSON)
	for _, n := range d.Nodes {
		fmt.Printf("%s: %s -> %s\n", n.Name, n.Input.JSON, n.Result.JSON)
	}
	report, err := ref.DescribeNode(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range report.History {
		fmt.Println("attempt", a.Number, "of report:", a.Outcome)
	}
	// Output:
	// run: "Lima" -> "LIMA: 21 °C, Oslo: 21 °C"
	// here: "Lima" -> "Lima: 21 °C"
	// there: "Oslo" -> "Oslo: 21 °C"
	// loud: "Lima: 21 °C" -> "LIMA: 21 °C"
	// report: ["LIMA: 21 °C","Oslo: 21 °C"] -> "LIMA: 21 °C, Oslo: 21 °C"
	// attempt 1 of report: success
}
