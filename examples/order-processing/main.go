package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/flow"
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
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "order-processing: %v\nTry order-processing -help.\n", err)
		return exitUsage
	}
	if err := trade(ctx, o, openShop(), stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "order-processing: %v\n", err)
		return exitFailure
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	return 0
}

// trade opens the engine, processes the orders, and prints their outcomes.
func trade(ctx context.Context, o options, shop *Shop, stdout, stderr io.Writer) (err error) {
	// The books of this shop are in this process, so no other process must get its orders.
	lane := "orders-" + strings.ToLower(rand.Text()[:8])
	def, err := OrderFlow(lane)
	if err != nil {
		return err
	}
	if o.explain {
		fmt.Fprint(stdout, def.Outline())
		return nil
	}
	level := slog.LevelError
	if o.verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	engine, err := runtime.Open(ctx, o.engine, runtime.OpenConfig{Logger: logger})
	if err != nil {
		return fmt.Errorf("%s: %w", o.engineOrigin, err)
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	client, err := runtime.NewClient(engine)
	if err != nil {
		return err
	}
	defer client.Close()
	worker, err := runtime.NewWorker(engine, runtime.WorkerConfig{Name: "shop", Lanes: []string{lane}})
	if err != nil {
		return err
	}
	if err := worker.Register(shop.Handlers(def)...); err != nil {
		return err
	}

	// The worker outlives an interruption: it closes the orders that are cancelled then.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var workers errgroup.Group
	workers.Go(func() error { return worker.Run(working) })
	reports, err := carryAll(ctx, client, def, lane, placements())
	stop()
	if err := errors.Join(err, workers.Wait()); err != nil {
		return err
	}
	return errors.Join(printReports(stdout, shop, reports), printBooks(stdout, shop))
}

// carryAll places all orders and waits for their ends.
func carryAll(
	ctx context.Context, client *runtime.Client, def *flow.Definition[Order, Shipment], lane string, all []placement,
) ([]report, error) {
	reports := make([]report, len(all))
	var orders errgroup.Group
	var faults error
	for i, p := range all {
		reports[i].order = p.order
		run, err := place(ctx, client, def, lane, p.order)
		if err != nil {
			faults = err
			break
		}
		orders.Go(func() (err error) {
			reports[i].why, err = carry(ctx, run, p)
			return err
		})
	}
	return reports, errors.Join(faults, orders.Wait())
}

// options has the values of the command line.
type options struct {
	engine       string
	engineOrigin string // where the engine's URL was given, for errors
	explain      bool
	verbose      bool
}

const usageText = `Usage: order-processing [flags]

Carries out the orders of a small shop, whose warehouse and bank are in memory, and prints what has become of them.

`

// parseOptions reads the command line. It returns flag.ErrHelp after it has printed the help.
func parseOptions(args []string, help io.Writer) (options, error) {
	o := options{engineOrigin: "-engine"}
	if url := os.Getenv("FLOWFABRIC_URL"); url != "" {
		o.engine, o.engineOrigin = url, "FLOWFABRIC_URL"
	}
	flags := flag.NewFlagSet("order-processing", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("engine",
		"`URL` of the engine: embedded:, embedded:DIR, redis://…, valkey://…; default $FLOWFABRIC_URL, else in memory",
		func(text string) error { o.engine, o.engineOrigin = text, "-engine"; return nil })
	flags.BoolVar(&o.explain, "explain", false, "print the flow, node by node, and exit")
	flags.BoolVar(&o.verbose, "v", false, "log what happens inside to standard error")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(help, usageText)
		flags.SetOutput(help)
		flags.PrintDefaults()
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("arguments %q: there must be none", flags.Args())
	}
	return o, err
}
