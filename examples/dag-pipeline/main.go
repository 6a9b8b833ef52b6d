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
	"syscall"
	"time"

	"github.com/flowfabric/flowfabric-go/contract"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// Exit codes.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, stdout *os.File, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "dag-pipeline: %v\nTry dag-pipeline -help.\n", err)
		return exitUsage
	}
	err = census(ctx, o, stdout, stderr)
	switch {
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "dag-pipeline: %v\n", err)
		return exitFailure
	}
	return 0
}

var errInterrupted = errors.New("interrupted")

// grace is how long running nodes may continue after Ctrl-C before they are released unfinished.
const grace = 500 * time.Millisecond

// census opens the engine, takes the census and writes its files.
func census(ctx context.Context, o options, stdout *os.File, stderr io.Writer) (err error) {
	def, err := Census(o.shards)
	if err != nil {
		return err
	}
	if o.explain {
		plan, err := runtime.Plan(def, Source{Root: o.tree}, runtime.WithID(o.run))
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "Run %s, %s\n%s\n%s", o.run, o.tree, def.Outline(), plan)
		return nil
	}
	level := slog.LevelError
	if o.verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	eng, err := runtime.Open(ctx, o.engine, runtime.OpenConfig{
		Logger: logger, Backend: contract.Backend(contract.Config{}),
	})
	if err != nil {
		return fmt.Errorf("%s: %w", o.engineOrigin, err)
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	client, err := runtime.NewClient(eng)
	if err != nil {
		return err
	}
	defer client.Close()

	if o.out == "" {
		o.out, err = os.MkdirTemp("", "census-report-")
	} else {
		err = os.MkdirAll(o.out, 0o755)
	}
	if err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	started, err := runtime.Start(ctx, client, def, Source{Root: o.tree}, runtime.WithID(o.run))
	if errors.Is(err, runtime.ErrConflict) {
		return fmt.Errorf("-run %q: must be the id of a census of the same tree with the same -shards, or a new one: %w", o.run, err)
	}
	if err != nil {
		return err
	}
	show := newDisplay(stdout, isTerminal(stdout) && !o.verbose)
	edition, err := take(ctx, eng, started, o, show)
	if err != nil {
		if ctx.Err() != nil {
			return farewell(started, o, stdout)
		}
		return err
	}

	final, err := started.Describe(ctx)
	if err != nil {
		return err
	}
	show.show(final)
	written, err := writeEdition(o.out, edition, def, final)
	if err != nil {
		return err
	}
	writeTotals(stdout, edition.Ranking)
	fmt.Fprintf(stdout, "\nRun %s took %s. Written:\n", o.run,
		final.ClosedAt.Sub(final.CreatedAt).Round(time.Millisecond))
	for _, name := range written {
		fmt.Fprintln(stdout, " ", name)
	}
	return nil
}

// take runs a worker, with its keeper, until the run has ended, and shows its progress.
func take(
	ctx context.Context, eng *runtime.Engine, started *runtime.Run[Edition], o options, show *display,
) (Edition, error) {
	worker, err := runtime.NewWorker(eng, runtime.WorkerConfig{
		Name: "census", Concurrency: o.workers, Lease: o.lease, Grace: grace,
	})
	if err != nil {
		return Edition{}, err
	}
	if err := worker.Register(scan, cut, measure, join, rank, report, chart, publish); err != nil {
		return Edition{}, err
	}
	// The state of the run is read before this process adds to it.
	state, err := started.Describe(ctx)
	if err != nil {
		return Edition{}, err
	}
	if started.Existed() {
		show.found(state)
	} else {
		fmt.Fprintf(show.out, "Run %s begins: %d nodes, %s\n", o.run, len(state.Nodes), o.tree)
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return worker.Run(ctx) })
	var edition Edition
	over := false
	group.Go(func() (err error) {
		defer stop()
		edition, err = started.Result(ctx)
		over = err == nil
		return err
	})
	watch(ctx, started, show)
	if err := group.Wait(); !over {
		return Edition{}, err
	}
	// Once the result is known, errors of the worker do not matter.
	return edition, nil
}

// watchEvery is the interval of reads of the run's state.
const watchEvery = 250 * time.Millisecond

// watch shows the state of a run until ctx ends.
func watch(ctx context.Context, started *runtime.Run[Edition], show *display) {
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	for {
		switch state, err := started.Describe(ctx); {
		case err == nil:
			show.show(state)
		case ctx.Err() == nil:
			show.trouble(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// farewell prints how to continue an interrupted run.
func farewell(started *runtime.Run[Edition], o options, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	fmt.Fprintf(stdout, "\nInterrupted. ")
	if state, err := started.Describe(ctx); err == nil {
		fmt.Fprintf(stdout, "%d of %d nodes are finished, what was running is released. ", len(finished(state)),
			len(state.Nodes))
	}
	if o.inMemory() {
		fmt.Fprintln(stdout,
			"The run was in memory only and is gone; with -engine embedded:DIR or a server it could go on.")
	} else {
		fmt.Fprintf(stdout, "The same command goes on with run %s.\n", o.run)
	}
	return errInterrupted
}
