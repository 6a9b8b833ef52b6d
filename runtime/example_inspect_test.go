package runtime_test

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// An engine in this process without a directory has one thing to note, and no keeper yet.
func ExampleEngine_Inspect() {
	ctx := context.Background()
	engine, err := runtime.Open(ctx, "embedded:", runtime.OpenConfig{})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	report, err := engine.Inspect(ctx)
	if err != nil {
		panic(err)
	}
	for _, finding := range report.Findings {
		switch finding.Code {
		case "engine.in_memory", "keeper.none":
			fmt.Printf("%s: %s\n", finding.Severity, finding.Found)
		}
	}
	fmt.Println("worst:", report.Worst)
	// Output:
	// warning: no keeper runs: retries, timeouts and lost work wait
	// info: nothing outlives this process
	// worst: warning
}
