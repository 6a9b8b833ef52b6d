package runtime_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A client reads a value that the function of a node has published.
func ExampleRunRef_Value() {
	encode := activity.New("encode", func(ctx context.Context, files []string) (int, error) {
		for _, file := range files {
			if err := activity.Publish(ctx, "file", file); err != nil {
				return 0, err
			}
		}
		return len(files), nil
	})
	f := flow.New[[]string, int]("film")
	flow.Return(f, flow.Node(f, "encode", encode, f.Input()))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	run, err := runtime.Start(ctx, local.Client(), def, []string{"a.mov", "b.mov"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Result(ctx); err != nil {
		fmt.Println(err)
		return
	}
	value, err := run.Value(ctx, "encode", "file")
	fmt.Println(string(value.JSON), value.Attempt, err)
	// Output: "b.mov" 1 <nil>
}
