package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A worker that runs only the executions that ClaimForWorker grants to it.
func ExampleEngine_ClaimForWorker() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	engine, err := runtime.Open(ctx, "", runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = engine.Close() }()

	double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	f := flow.New[int, int]("doubling")
	flow.Return(f, flow.Node(f, "double", double, f.Input()))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}

	worker, err := runtime.NewWorker(engine, runtime.WorkerConfig{ClaimThrough: engine.ClaimForWorker})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Register(double); err != nil {
		log.Fatal(err)
	}
	working, stopWorking := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- worker.Run(working) }()

	client, err := runtime.NewClient(engine)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	run, err := runtime.Start(ctx, client, def, 21)
	if err != nil {
		log.Fatal(err)
	}
	result, err := run.Result(ctx)
	fmt.Println(result, err)
	stopWorking()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	// Output: 42 <nil>
}
