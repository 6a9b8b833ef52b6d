package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The lines that an activity logs are kept with its attempt.
func ExampleRunRef_Logs() {
	ctx := context.Background()
	load := activity.New("load", func(ctx context.Context, rows int) (int, error) {
		activity.Logger(ctx).Info("loading", "rows", rows)
		activity.Logger(ctx).Warn("a row has no date", "row", 3)
		return rows, nil
	})
	f := flow.New[int, int]("import")
	flow.Return(f, flow.Node(f, "load", load, f.Input()))
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
	run, err := runtime.Start(ctx, local.Client(), def, 12)
	if err != nil {
		log.Fatal(err)
	}
	for line, err := range run.Logs(ctx, "load", runtime.LogQuery{Follow: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(line.Attempt, line.Level, line.Message, string(line.Attrs))
	}
	// Output:
	// 1 INFO loading {"rows":12}
	// 1 WARN a row has no date {"row":3}
}
