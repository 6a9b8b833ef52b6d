package backup_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/backup"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A directory is backed up while a program uses it, and restored into another one, where the run waits as before.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "backup")
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
	var engines []*runtime.Engine
	open := func(url string) *runtime.Client {
		engine, err := runtime.Open(ctx, url, runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			log.Fatal(err)
		}
		engines = append(engines, engine)
		client, err := runtime.NewClient(engine)
		if err != nil {
			log.Fatal(err)
		}
		return client
	}
	from, to := "embedded:"+filepath.Join(dir, "from"), "embedded:"+filepath.Join(dir, "to")
	client := open(from)
	if _, err := runtime.Start(ctx, client, def, "invoice 7", runtime.WithID("7")); err != nil {
		log.Fatal(err)
	}

	file := filepath.Join(dir, "backup")
	written, err := backup.Write(ctx, from, file, backup.Config{})
	fmt.Println(written.Runs, written.OpenRuns, err)
	restored, err := backup.Restore(ctx, file, to, backup.Config{})
	fmt.Println(restored.Digest == written.Digest, err)

	waits, err := open(to).Run("approval", "7").Waitpoints(ctx)
	fmt.Println(waits[0].Node, err)
	for _, engine := range engines {
		_ = engine.Close() // nothing is written from here on
	}
	// Output:
	// 1 1 <nil>
	// true <nil>
	// approve <nil>
}
