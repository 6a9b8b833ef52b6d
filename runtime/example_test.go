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

var (
	fetch = activity.New("fetch", func(_ context.Context, city string) (string, error) { return city + ": 21 °C", nil })
	upper = activity.New("upper", func(_ context.Context, s string) (string, error) { return strings.ToUpper(s), nil })
	join  = activity.New("join", func(_ context.Context, lines []string) (string, error) { return strings.Join(lines, ", "), nil })
)

func weather() (*flow.Definition[string, string], error) {
	f := flow.New[string, string]("weather")
	here := flow.Node(f, "here", fetch, f.Input())
	there := flow.Node(f, "there", fetch, flow.Const("Oslo"))
	loud := flow.Node(f, "loud", upper, here)
	flow.Return(f, flow.Node(f, "report", join, flow.List(loud, there)))
	return f.Build()
}

// A whole program: engine, keeper, worker and client in this process. The empty URL keeps everything in memory; with
// "embedded:DIR" or "valkey://localhost" it survives a restart.
func ExampleOpenLocal() {
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
	run, err := runtime.Start(ctx, local.Client(), def, "Lima", runtime.WithID("first"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: LIMA: 21 °C, Oslo: 21 °C <nil>
}
