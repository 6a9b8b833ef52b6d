// Command replay replays conformance traces against a function library and prints its differences from the reference.
//
//	go run ./internal/test/conformance/replay [-library FILE] [-trace NAME,…] [-functions ff_x,…] [-keep-going]
//
// Functions that the library does not have are bridged: their recorded effect
// is written instead. Without -server it starts Redis processes of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/conformance"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2) // the flag package has printed the fault
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var (
	errUsage    = errors.New("usage")
	errDiffers  = errors.New("the library differs from the reference")
	errNoTraces = errors.New("no trace matches")
)

type config struct {
	server, program, library, traces, functions, data, deviations string
	flush, embedded, keepGoing, list, rows                        bool
	max, maxDifferences, parallel                                 int
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var c config
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.StringVar(&c.server, "server", "", "address of a server with an empty database (default: own processes)")
	flags.BoolVar(&c.flush, "flush", false, "empty the database of -server first")
	flags.BoolVar(&c.embedded, "embedded", false, "replay on embedded engines instead of servers")
	flags.StringVar(&c.program, "program", "", "server program to start without -server (default: the redis-server of the tests)")
	flags.IntVar(&c.parallel, "parallel", 2, "number of own processes")
	flags.StringVar(&c.library, "library", "", "file with the library's source (default: this repository's)")
	flags.StringVar(&c.traces, "trace", "", "replay only these traces (comma-separated shell patterns)")
	flags.StringVar(&c.functions, "functions", "", "call only these functions (comma-separated shell patterns), and replay only traces with one of them")
	flags.BoolVar(&c.keepGoing, "keep-going", false, "continue a trace after a difference, from the recorded state")
	flags.IntVar(&c.max, "max", 3, "failures printed per trace")
	flags.IntVar(&c.maxDifferences, "max-diffs", 40, "differences printed per failure")
	flags.BoolVar(&c.list, "list", false, "only list traces and the functions they need")
	flags.BoolVar(&c.rows, "rows", false, "print failures as raw material for deviations.json")
	flags.StringVar(&c.data, "data", "testdata/conformance", "directory of the traces")
	flags.StringVar(&c.deviations, "deviations", "", "file of accepted differences (default: deviations.json in -data; none: -)")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	traces, err := conformance.LoadDir(c.data)
	if err != nil {
		return err
	}
	if traces = c.choose(traces); len(traces) == 0 {
		return errNoTraces
	}
	if c.list {
		for _, t := range traces {
			fmt.Fprintf(out, "%-32s %5d steps  %s\n", t.Name, len(t.Steps), strings.Join(t.Functions(), " "))
		}
		return nil
	}
	if c.server == "" && c.program == "" && !c.embedded {
		var found bool
		if c.program, found = testserver.Available(testserver.Redis); !found {
			return errors.New(testserver.Hint(testserver.Redis))
		}
	}
	return c.replay(ctx, traces, out)
}

// choose returns the traces that -trace and -functions ask for.
func (c *config) choose(traces []*conformance.Trace) []*conformance.Trace {
	return slices.DeleteFunc(traces, func(t *conformance.Trace) bool {
		return c.traces != "" && !matches(c.traces, t.Name) ||
			c.functions != "" && !slices.ContainsFunc(t.Functions(), func(f string) bool { return matches(c.functions, f) })
	})
}

func matches(patterns, name string) bool {
	return slices.ContainsFunc(strings.Split(patterns, ","), func(p string) bool {
		ok, err := path.Match(strings.TrimSpace(p), name)
		return ok && err == nil
	})
}

func (c *config) replay(ctx context.Context, traces []*conformance.Trace, out io.Writer) error {
	options := conformance.Options{KeepGoing: c.keepGoing}
	if c.functions != "" {
		options.Functions = map[string]bool{}
		for _, t := range traces {
			for _, f := range t.Functions() {
				if matches(c.functions, f) {
					options.Functions[f] = true
				}
			}
		}
	}
	var err error
	if options.Deviations, err = c.loadDeviations(); err != nil {
		return err
	}
	library, err := c.source()
	if err != nil {
		return err
	}
	start := time.Now()
	results, err := conformance.Run(ctx, traces, c.openers(len(traces)), library, options, func(r *conformance.Result) {
		c.print(out, r)
	})
	if err != nil {
		return err
	}
	summary := conformance.Summarize(results)
	summary.Write(out)
	fmt.Fprintf(out, "%.1f s\n", time.Since(start).Seconds())
	// Rows of another directory need not be needed here.
	complete := c.traces == "" && c.functions == "" && c.deviations == "" && (c.keepGoing || len(summary.Failures) == 0)
	var unused []*conformance.Row
	if complete {
		unused = options.Deviations.Unused(summary.Functions())
	}
	for _, row := range unused {
		fmt.Fprintf(out, "deviation %s for %s matched nothing\n", row.Name(), strings.Join(row.Functions, ", "))
	}
	if len(summary.Failures)+len(unused) > 0 {
		return errDiffers
	}
	return nil
}

func (c *config) source() (string, error) {
	if c.library == "" {
		return lualib.Source(), nil
	}
	source, err := os.ReadFile(c.library)
	return string(source), err
}

func (c *config) loadDeviations() (*conformance.Deviations, error) {
	switch c.deviations {
	case "-":
		return &conformance.Deviations{}, nil
	case "":
		return conformance.LoadDeviations(filepath.Join(c.data, "deviations.json"))
	}
	if _, err := os.Stat(c.deviations); err != nil {
		return nil, err
	}
	return conformance.LoadDeviations(c.deviations)
}

func (c *config) openers(traces int) []conformance.Opener {
	if c.server != "" {
		return []conformance.Opener{conformance.NewAddress(c.server, c.flush)}
	}
	openers := make([]conformance.Opener, max(1, min(c.parallel, traces)))
	for i := range openers {
		if c.embedded {
			openers[i] = conformance.NewEmbedded()
		} else {
			openers[i] = conformance.NewProcess(c.program)
		}
	}
	return openers
}

func (c *config) print(out io.Writer, r *conformance.Result) {
	for i, f := range r.Failures {
		if i == c.max {
			fmt.Fprintf(out, "trace %s: %d more failures\n\n", r.Trace.Name, len(r.Failures)-i)
			break
		}
		if c.rows {
			f.WriteRow(out)
		} else {
			f.Write(out, c.maxDifferences)
		}
		fmt.Fprintln(out)
	}
}
