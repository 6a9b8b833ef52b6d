package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "etl: %v\nTry etl -help.\n", err)
		return exitUsage
	}
	if err := etl(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "etl: %v\n", err)
		return exitFailure
	}
	return 0
}

// etl makes the files, loads them and prints the summary.
func etl(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	var loads loader
	load := newLoad(&loads)
	def, err := ETL(load)
	if err != nil {
		return err
	}
	if o.explain {
		return explain(stdout, def, load)
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "etl-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	if o.run == "" {
		o.run = runID(o.dir)
	}
	source := Source{Data: filepath.Join(o.dir, "measurements"), Warehouse: filepath.Join(o.dir, "warehouse")}
	if err := makeData(source.Data); err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	level := slog.LevelError
	if o.verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	eng, err := runtime.Open(ctx, o.engine, runtime.OpenConfig{Logger: logger})
	if err != nil {
		return fmt.Errorf("%s: %w", o.engineOrigin, err)
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	summary, err := perform(ctx, eng, def, load, source, o.run, stdout)
	switch {
	case err != nil && ctx.Err() != nil && o.inMemory():
		return errors.New("interrupted; the run was in memory only and is gone")
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("interrupted; the same command continues run %s", o.run)
	case err != nil:
		return err
	}
	if err := writeSummary(stdout, summary); err != nil {
		return err
	}
	return writeWarehouse(stdout, source.Warehouse, loads.counted())
}

// explain prints both flows.
func explain(
	stdout io.Writer, def *flow.Definition[Source, Summary], load *activity.Activity[Table, FileReport],
) error {
	perFile, err := PerFile(load)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n%s", def.Outline(), perFile.Outline())
	return err
}

// grace is how long running nodes may continue after Ctrl-C before they are released unfinished.
const grace = 500 * time.Millisecond

// perform starts the run, unless it exists, and runs a worker, with its keeper, until the run has ended.
func perform(
	ctx context.Context, eng *runtime.Engine, def *flow.Definition[Source, Summary],
	load *activity.Activity[Table, FileReport], source Source, id string, stdout io.Writer,
) (Summary, error) {
	client, err := runtime.NewClient(eng)
	if err != nil {
		return Summary{}, err
	}
	defer client.Close()
	worker, err := runtime.NewWorker(eng, runtime.WorkerConfig{Name: "etl", Grace: grace})
	if err != nil {
		return Summary{}, err
	}
	if err := worker.Register(list, extract, validate, transform, load, summarize); err != nil {
		return Summary{}, err
	}
	started, err := runtime.Start(ctx, client, def, source, runtime.WithID(id))
	if errors.Is(err, runtime.ErrConflict) {
		return Summary{}, fmt.Errorf("-run %q: must be the id of a run for the same -dir, or a new one: %w", id, err)
	}
	if err != nil {
		return Summary{}, err
	}
	what := "begins"
	if started.Existed() {
		what = "exists already"
	}
	fmt.Fprintf(stdout, "Run %s %s: %s\n\n", id, what, source.Data)

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return worker.Run(ctx) })
	var summary Summary
	over := false
	group.Go(func() (err error) {
		defer stop()
		summary, err = started.Result(ctx)
		over = err == nil
		return err
	})
	if err := group.Wait(); !over {
		return Summary{}, err
	}
	// Once the result is known, errors of the worker do not matter.
	return summary, nil
}

// writeWarehouse prints the content of the warehouse, and the counts of this process.
func writeWarehouse(stdout io.Writer, dir string, did loadCounts) error {
	transactions, entries, err := readWarehouse(dir)
	if err != nil {
		return err
	}
	rows := 0
	for _, e := range entries {
		rows += len(e.Rows)
	}
	_, err = fmt.Fprintf(stdout, "Warehouse: %d rows of %d files in %d transactions\n"+
		"This process: %d files loaded in %d calls, at most %d files at a time (limit %d), %d were there already\n",
		rows, len(entries), transactions, did.Files, did.Calls, did.Peak, loadsAtOnce, did.Repeated)
	return err
}
