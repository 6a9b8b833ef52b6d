package runtime_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// A separate keeper, without workers; it reports its work at any time.
func ExampleNewKeeper() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := runtime.Open(ctx, "embedded:", runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	keeper, err := runtime.NewKeeper(engine, runtime.KeeperConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
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
