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

// A program that works on tasks in its own loop, in place of functions.
func ExampleWorker_Next() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	engine, err := runtime.Open(ctx, "", runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = engine.Close() }()

	// The declaration gives the types and the codec; this program never calls the function.
	render := activity.New("render", func(context.Context, string) (int, error) { panic("it runs elsewhere") })
	f := flow.New[string, int]("video")
	flow.Return(f, flow.Node(f, "render", render, f.Input()))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}

	worker, err := runtime.NewWorker(engine, runtime.WorkerConfig{TaskKinds: []string{"render"}})
	if err != nil {
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
	run, err := runtime.Start(ctx, client, def, "intro.mp4")
	if err != nil {
		log.Fatal(err)
	}

	task, err := worker.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	file, err := render.DecodeInput(task.Payload())
	if err != nil {
		log.Fatal(err)
	}
	info := task.Info()
	fmt.Println(info.Kind, file, "attempt", info.Attempt, "epoch", info.LeaseEpoch)
	if err := task.Progress(ctx, 50, "half"); err != nil {
		log.Fatal(err)
	}
	if err := task.Complete(ctx, 1200); err != nil {
		log.Fatal(err)
	}

	frames, err := run.Result(ctx)
	fmt.Println(frames, err)
	stopWorking()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	// Output:
	// render intro.mp4 attempt 1 epoch 1
	// 1200 <nil>
}
