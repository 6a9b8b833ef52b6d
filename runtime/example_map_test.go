package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// How many items there are is known when the node before has listed them.
func ExampleRunRef_Items() {
	ctx := context.Background()
	split := activity.New("split", func(_ context.Context, text string) ([]string, error) { return strings.Fields(text), nil })
	f := flow.New[string, string]("shout")
	words := flow.Node(f, "words", split, f.Input())
	flow.Return(f, flow.Node(f, "together", join, flow.Map(f, "each", upper, words)))
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
	run, err := runtime.Start(ctx, local.Client(), def, "a list of words")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	for item, err := range local.Client().Run("shout", run.ID()).Items(ctx, "each", 2) {
		fmt.Println(item.Name, item.State, string(item.Result.JSON), err)
	}
	// Output:
	// A, LIST, OF, WORDS <nil>
	// item-2 completed "OF" <nil>
	// item-3 completed "WORDS" <nil>
}
