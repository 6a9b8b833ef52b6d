package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync/atomic"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Result returns a *RunError that names the failed node. A rerun runs it again, and keeps the results of the others.
func ExampleRunRef_Rerun() {
	ctx := context.Background()
	var open atomic.Bool
	hello := activity.New("hello", func(_ context.Context, name string) (string, error) { return "Hello " + name, nil })
	deliver := activity.New("deliver", func(_ context.Context, text string) (string, error) {
		if !open.Load() {
			return "", activity.NonRetryable(errors.New("the shop is closed"))
		}
		return text + ", delivered", nil
	})
	f := flow.New[string, string]("order")
	flow.Return(f, flow.Node(f, "deliver", deliver, flow.Node(f, "hello", hello, f.Input())))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(),
		Open:       runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()

	run, err := runtime.Start(ctx, local.Client(), def, "Ann", runtime.WithID("7"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = run.Result(ctx)
	var failed *runtime.RunError
	if errors.As(err, &failed) {
		fmt.Println(failed.Node, "failed:", failed.Reason)
	}

	open.Store(true)
	if err := run.Rerun(ctx, fabrictype.RerunFailed); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// deliver failed: the shop is closed
	// Hello Ann, delivered <nil>
}

// Watch yields the events of a run from its start until it is over.
func ExampleRunRef_Watch() {
	ctx := context.Background()
	def, err := weather()
	if err != nil {
		log.Fatal(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(),
		Open:       runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()
	run, err := runtime.Start(ctx, local.Client(), def, "Lima")
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range run.Watch(ctx, "") {
		if err != nil {
			log.Fatal(err)
		}
		if event.Node == "" {
			fmt.Println(event.Kind)
		}
	}
	// Output:
	// flow_submitted
	// flow_success
}
