package runtime_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// A keeper of its own, without workers; what it has done can be asked at any time.
func ExampleNewKeeper() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := runtime.Open(ctx, "embedded:", runtime.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	keeper := runtime.NewKeeper(engine)
	done := make(chan error)
	go func() { done <- keeper.Run(ctx) }()
	stats := keeper.Stats()
	fmt.Println(stats.Keepers, "keeper,", stats.Partitions, "partitions")
	stop()
	fmt.Println(<-done)
	// Output:
	// 1 keeper, 8 partitions
	// <nil>
}

// One duty by hand: whatever index does not fit the records is repaired.
func ExampleClient_RunDuty() {
	ctx := context.Background()
	engine, err := runtime.Open(ctx, "embedded:", runtime.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	client := runtime.NewClient(engine)
	defer client.Close()
	report, err := client.RunDuty(ctx, runtime.DutyIndexReconciliation)
	fmt.Println(report.Partitions, report.Done, report.Repaired, err)
	// Output: 8 0 map[] <nil>
}
