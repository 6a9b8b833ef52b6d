package archive_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A run is archived and purged, and read without the engine.
func ExampleWrite() {
	dir, err := os.MkdirTemp("", "runs-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := runAndArchive(context.Background(), dir); err != nil {
		fmt.Println(err)
		return
	}
	kept, err := archive.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := kept.Run("greeting", "one")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.State, string(run.Description().Result.Bytes()))
	// Output:
	// 1 archived, 1 purged
	// succeeded "hello ann"
}

func runAndArchive(ctx context.Context, dir string) error {
	hello := activity.New("hello", func(_ context.Context, name string) (string, error) { return "hello " + name, nil })
	f := flow.New[string, string]("greeting")
	flow.Return(f, flow.Node(f, "hello", hello, f.Input()))
	def, err := f.Build()
	if err != nil {
		return err
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)}, Activities: def.Handlers(),
	})
	if err != nil {
		return err
	}
	defer local.Close()
	run, err := runtime.Start(ctx, local.Client(), def, "ann", runtime.WithID("one"))
	if err != nil {
		return err
	}
	if _, err := run.Result(ctx); err != nil {
		return err
	}
	report, err := archive.Write(ctx, local.Client(), archive.Config{Dir: dir, PurgeAfter: 1})
	fmt.Printf("%d archived, %d purged\n", report.Archived, report.Purged)
	return err
}
