package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"

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
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "agent: %v\nTry agent -help.\n", err)
		return exitUsage
	}
	err = answer(ctx, o, stdin, stdout, stderr)
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(stdout, "\nInterrupted.")
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "agent: %v\n", err)
		return exitFailure
	}
	return 0
}

// answer opens the engine, starts the run with a worker, and shows it until it has ended.
func answer(ctx context.Context, o options, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if o.modelURL == "" {
		base, stop, err := serveLocalModel(&localModel{})
		if err != nil {
			return fmt.Errorf("local model: %w", err)
		}
		defer stop()
		// The key is for others.
		o.modelURL, o.key = base, ""
	}
	if o.notes == "" {
		if o.notes, err = os.MkdirTemp("", "agent-notes-"); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "Notes go to %s.\n", o.notes)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	a := newAgent(&modelClient{
		http: &http.Client{Transport: transport}, base: o.modelURL, name: o.model, key: o.key,
	}, newTools(o.notes))
	def, err := a.Flow(o.budget)
	if err != nil {
		return err
	}
	level := slog.LevelError
	if o.verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		URL: o.engine, Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: logger},
		Worker: runtime.WorkerConfig{Name: "agent"},
	})
	if err != nil {
		return fmt.Errorf("-engine: %w", err)
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	var opts []runtime.StartOption
	if o.run != "" {
		opts = append(opts, runtime.WithID(o.run))
	}
	started, err := runtime.Start(ctx, local.Client(), def, o.question, opts...)
	if errors.Is(err, runtime.ErrConflict) {
		return fmt.Errorf("-run %q: is the run of another question: %w", o.run, err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Run %s: %s\n", started.ID(), o.question)
	s := &show{client: local.Client(), run: started.RunRef, out: stdout}
	if o.ask {
		s.lines = bufio.NewScanner(stdin)
	}
	return follow(ctx, started, s)
}

// follow shows a run until it has ended, then its answer and its budget.
func follow(ctx context.Context, started *runtime.Run[Answer], s *show) error {
	over := make(chan struct{})
	var result Answer
	var failed error
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(over)
		result, failed = started.Result(ctx)
		return nil
	})
	group.Go(func() error { return s.follow(ctx, over) })
	if err := group.Wait(); err != nil {
		return err
	}
	if failed == nil {
		s.answer(result)
	}
	return errors.Join(failed, s.budget(context.WithoutCancel(ctx)))
}
