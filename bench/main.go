// Command bench measures the engine and the SDK together: client, worker and keeper in this process, the engine wherever
// the URL says.
//
//	go run ./bench -engine valkey://localhost:6379 -work chain
//
// Every figure stands beside what the same server does without the engine, in the same run, so it is also a ratio.
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
	"runtime/pprof"
	"strings"
	"text/tabwriter"
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
	work        string
	concurrency int
	flows       int
	clients     int
	asJSON      bool
	profile     string
	functions   bool
	traces      string
	rounds      int
}

func parseFlags(args []string) (settings, error) {
	s := settings{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&s.url, "engine", os.Getenv("FLOWFABRIC_URL"), "URL of the engine; empty is one in this process")
	flags.StringVar(&s.work, "work", "single,chain,chain-idle,fanout-idle,retry", "workloads: "+strings.Join(workloadNames(), ", "))
	flags.IntVar(&s.concurrency, "slots", 16, "activities that run at a time")
	flags.IntVar(&s.flows, "flows", 1000, "runs of each loaded workload")
	flags.IntVar(&s.clients, "clients", 16, "goroutines that start runs under load")
	flags.BoolVar(&s.asJSON, "json", false, "print one JSON object for each workload")
	flags.StringVar(&s.profile, "cpuprofile", "", "write a CPU profile of this process to the file")
	flags.BoolVar(&s.functions, "functions", false, "print what each function of the main path costs a server, instead of workloads")
	flags.StringVar(&s.traces, "traces", "", "with -functions: directory of recorded conversations to measure all functions with; empties the database")
	flags.IntVar(&s.rounds, "rounds", 1, "with -functions: how often to measure; the best counts")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.concurrency < 1 || s.flows < 1 || s.clients < 1 {
		return s, fmt.Errorf("-slots %d, -flows %d, -clients %d: each must be at least 1", s.concurrency, s.flows, s.clients)
	}
	return s, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parseFlags(args)
	if err != nil {
		return err
	}
	if s.profile != "" {
		stop, err := startProfile(s.profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if s.functions {
		return functionCosts(ctx, s, quiet, out)
	}
	var results []result
	for name := range strings.SplitSeq(s.work, ",") {
		work, ok := workloads[name]
		if !ok {
			return fmt.Errorf("-work %q: must be of %s", name, strings.Join(workloadNames(), ", "))
		}
		local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
			URL: s.url, Activities: activities(), Worker: []runtime.WorkerOption{runtime.Concurrency(s.concurrency)},
			Open: []runtime.OpenOption{runtime.Prefix(newPrefix()), runtime.Logger(quiet)},
		})
		if err != nil {
			return err
		}
		r, err := measure(ctx, s, local, name, work)
		if err := errors.Join(err, local.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, r)
	}
	if s.asJSON {
		encoder := json.NewEncoder(out)
		for _, r := range results {
			if err := encoder.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	return printTable(out, results)
}

func functionCosts(ctx context.Context, s settings, logger *slog.Logger, out io.Writer) error {
	engine, err := runtime.Open(ctx, s.url, runtime.Prefix(newPrefix()), runtime.Logger(logger))
	if err != nil {
		return err
	}
	return errors.Join(costTable(ctx, engine, s.traces, s.rounds, out), engine.Close())
}

// newPrefix keeps the data of one run apart from that of earlier ones.
func newPrefix() string { return fmt.Sprintf("bench-%d", time.Now().UnixMilli()) }

func startProfile(name string) (stop func(), err error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}, nil
}

func printTable(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "work\tflows\tnodes\tflows/s\tnodes/s\tp50\tp99\tmax\tserver µs/node\tcalls/node\tFCALL ceiling/s\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.0f\t%.0f\t%s\t%s\t%s\t%.1f\t%.2f\t%.0f\t\n", r.Work, r.Flows, r.Nodes, r.FlowsPerSecond,
			r.NodesPerSecond, r.P50, r.P99, r.Max, r.ServerMicrosPerNode, r.CallsPerNode, r.CeilingPerSecond)
	}
	return w.Flush()
}
