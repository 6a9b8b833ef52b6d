package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	url         string
	aof         string
	work        string
	concurrency int
	flows       int
	most        int // bounds the runs of -time, for a workload that sets it
	time        time.Duration
	idleTime    time.Duration
	clients     int
	backlog     int
	pools       []int
	asJSON      bool
	cpuProfile  string
	memProfile  string
	functions   bool
	traces      string
	rounds      int
	all         bool
	serve       bool
	prefix      string
	logger      *slog.Logger
}

func parseFlags(args []string) (settings, error) {
	s := settings{pools: []int{1, 4, 16, 64}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&s.url, "engine", os.Getenv("FLOWFABRIC_URL"),
		"URL of the engine, or redis, valkey or cluster (of three) to start one; empty is one in this process")
	flags.StringVar(&s.aof, "aof", "no", "appendfsync of a server that is started: no (no file), everysec, always")
	flags.StringVar(&s.work, "work", "single,chain,chain-idle,fanout-idle,retry",
		"workloads: "+strings.Join(workloadNames(), ", "))
	flags.IntVar(&s.concurrency, "slots", 16, "activities that run at a time")
	flags.IntVar(&s.flows, "flows", 0, "runs of each workload; 0 is as many as there are in -time")
	flags.DurationVar(&s.time, "time", 3*time.Second, "how long to load")
	flags.DurationVar(&s.idleTime, "idle-time", 18*time.Second, "how long to look at an idle system")
	flags.IntVar(&s.clients, "clients", 16, "goroutines that start runs under load and wait for them")
	flags.IntVar(&s.backlog, "n", 100_000, "waiting executions of the backlog workload, runs that the kept and search workloads keep")
	flags.BoolVar(&s.asJSON, "json", false, "print one JSON object for each workload")
	flags.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile of this process to the file")
	flags.StringVar(&s.memProfile, "memprofile", "", "write a profile of this process's allocations to the file")
	flags.BoolVar(&s.functions, "functions", false,
		"print what each function of the main path costs a server, instead of workloads")
	flags.StringVar(&s.traces, "traces", "",
		"with -functions: directory of recorded conversations to measure all functions with; empties the database")
	flags.IntVar(&s.rounds, "rounds", 1, "with -functions: how often to measure, the best counts; with -all: rounds")
	flags.BoolVar(&s.all, "all", false,
		"measure everything that has a target, three rounds on servers that are started for it")
	flags.BoolVar(&s.serve, "serve", false, "be one worker process of another bench")
	flags.StringVar(&s.prefix, "prefix", "", "with -serve: prefix of the keyspace")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.concurrency < 1 || s.flows < 0 || s.clients < 1 || s.backlog < smallBacklog || s.rounds < 1 || s.time < 0 {
		return s, fmt.Errorf("-slots %d, -clients %d and -rounds %d must be at least 1, -flows %d and -time %s at least 0, -n %d at least %d",
			s.concurrency, s.clients, s.rounds, s.flows, s.time, s.backlog, smallBacklog)
	}
	s.logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return s, nil
}

// open configures every engine that is opened.
func (s settings) open() runtime.OpenConfig {
	return runtime.OpenConfig{Prefix: s.prefix, Logger: s.logger}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	s, err := parseFlags(args)
	if err != nil {
		return err
	}
	if s.serve {
		return serve(ctx, s, os.Stdin, out)
	}
	stopProfiles, err := startProfiles(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfiles()) }()
	if s.all {
		return measureAll(ctx, s, out)
	}
	url, stop, err := startServer(s.url, s.aof)
	if err != nil {
		return err
	}
	s.url = url
	defer func() { err = errors.Join(err, stop()) }()
	if s.functions {
		return functionCosts(ctx, s, s.logger, out)
	}
	results, err := measureWorkloads(ctx, s)
	if err != nil {
		return err
	}
	if !s.asJSON {
		return printResults(out, results)
	}
	encoder := json.NewEncoder(out)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func measureWorkloads(ctx context.Context, s settings) ([]result, error) {
	var results []result
	for name := range strings.SplitSeq(s.work, ",") {
		work, ok := workloads[name]
		if !ok {
			return nil, fmt.Errorf("-work %q: must be of %s", name, strings.Join(workloadNames(), ", "))
		}
		s.prefix = newPrefix()
		figures, err := work(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, result{work: name, engine: s.url, figures: figures})
	}
	s.prefix = newPrefix()
	err := withEngine(ctx, s, func(e *runtime.Engine, _ *runtime.Client) error {
		c, err := measureCeilings(ctx, e, s.concurrency)
		for i := range results {
			results[i].ceilings = c
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ceiling: %w", err)
	}
	return results, nil
}

func functionCosts(ctx context.Context, s settings, logger *slog.Logger, out io.Writer) error {
	engine, err := runtime.Open(ctx, s.url, runtime.OpenConfig{Prefix: newPrefix(), Logger: logger})
	if err != nil {
		return err
	}
	return errors.Join(costTable(ctx, engine, s.traces, s.rounds, out), engine.Close())
}

// newPrefix returns a prefix that separates the data of this run from the data of earlier ones.
func newPrefix() string { return fmt.Sprintf("bench-%d", time.Now().UnixNano()) }
