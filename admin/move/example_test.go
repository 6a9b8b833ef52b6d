package move_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/move"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// An engine is moved to another place, here another directory: the former one can no longer be opened.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "move")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f := flow.New[string, string]("approval")
	flow.Return(f, flow.Waitpoint[string](f, "approve", activity.Signals("approve")))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	config := runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)}
	from, to := "embedded:"+filepath.Join(dir, "from"), "embedded:"+filepath.Join(dir, "to")
	engine, err := runtime.Open(ctx, from, config)
	if err != nil {
		log.Fatal(err)
	}
	client, err := runtime.NewClient(engine)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := runtime.Start(ctx, client, def, "invoice 7", runtime.WithID("7")); err != nil {
		log.Fatal(err)
	}
	client.Close()
	if err := engine.Close(); err != nil {
		log.Fatal(err)
	}

	report, err := move.Run(ctx, from, to, move.Config{})
	fmt.Println(report.Runs, report.OpenRuns, err)
	_, err = runtime.Open(ctx, from, config)
	fmt.Println(errors.Is(err, enginecore.ErrMoved))
	// Output:
	// 1 1 <nil>
	// true
}
